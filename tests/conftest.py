"""What tests share: compiled programs, threads, and no deadline.

Examples of laws are the same ones every time, so that who changed nothing sees nothing fail; `make slow` draws others
(`--hypothesis-profile=searching`).

The user's cache of compiled programs is left alone. There is one for the time of the tests, which workers find where
the process that starts them has put it.
"""

import os
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # before anything imports jax, which reads it then
    compiled = tempfile.TemporaryDirectory(prefix="idiolect-compiled-")  # it is gone when this process is
    os.environ |= {"JAX_COMPILATION_CACHE_DIR": compiled.name, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.03"}

from idiolect.engines import Workers
from tests.compiling import compile_in_a_hurry

settings.register_profile("searching", deadline=None)
settings.register_profile("again", deadline=None, derandomize=True)
settings.load_profile("again")


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is compiled. Slow tests run for long, and workers inherit what is set here."""
    if config.option.markexpr == "not slow" and not hasattr(config, "workerinput"):
        compile_in_a_hurry()


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Two threads; how many there are must not matter."""
    with Workers(2) as threads:
        yield threads
