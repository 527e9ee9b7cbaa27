"""Registries and imported files are as they were when a test is over."""

import sys
from collections.abc import Iterator

import pytest

from idiolect.registry import REGISTRIES


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """What a test registers or imports is forgotten."""
    import idiolect.catalog  # noqa: F401 - it fills the registries

    entries = {kind: (dict(registry._entries), registry._installed) for kind, registry in REGISTRIES.items()}
    modules, paths = set(sys.modules), list(sys.path)
    yield
    for kind, (before, installed) in entries.items():
        REGISTRIES[kind]._entries, REGISTRIES[kind]._installed = before, installed
    for name in [name for name in sys.modules if name not in modules and name.startswith(("idiolect_own_", "far_"))]:
        del sys.modules[name]
    sys.path[:] = paths
