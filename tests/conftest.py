"""What tests share. They leave the user's cache of compiled programs alone, and none of them watches the clock."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")  # before anything imports jax, which reads it then

from idiolect.engines import Workers
from tests.compiling import in_a_hurry

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="module")
def compiled_in_a_hurry() -> Iterator[None]:
    """For a whole file: `pytestmark = pytest.mark.usefixtures("compiled_in_a_hurry")`."""
    with in_a_hurry():
        yield


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Two threads; how many there are must not matter."""
    with Workers(2) as threads:
        yield threads
