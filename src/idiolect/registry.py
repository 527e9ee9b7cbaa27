"""Names and the factories behind them: those of the package, of installed packages, and of one's own files.

A package adds its own by an entry point in the group `idiolect.<kind>`, a file by a decorator such as
`@idiolect.objective`. An entry point is loaded when its name is asked for, and not before.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from idiolect.errors import UserMistake

Factory: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=Factory)

BUILT_IN = "idiolect"


class Choice(NamedTuple):
    """A name from a registry, and options for what it names.

    Args:
        name: Such as `digits`, `mlp` or `ring`.
        options: By the names that a recipe has for them.

    Example:
        >>> from idiolect import Choice
        >>> Choice("digits", {"clients": 10}).options["clients"]
        10
    """

    name: str
    options: Mapping[str, Any] = {}


REGISTRIES: dict[str, "Registry"] = {}  # by kind


class _Entry(NamedTuple):
    factory: Factory
    source: str


class Registry(Mapping[str, Factory]):
    """The factories of one kind, by name, and where each comes from."""

    def __init__(self, kind: str, built_in: Mapping[str, Factory]) -> None:
        self.kind = kind
        self._entries = {name: _Entry(factory, BUILT_IN) for name, factory in built_in.items()}
        self._installed: dict[str, EntryPoint] | None = None
        REGISTRIES[kind] = self

    @property
    def one(self) -> str:
        """What one of this kind is called: `topology` of topologies."""
        return re.sub("ie$", "y", self.kind.replace("_", " ").removesuffix("s"))

    def __getitem__(self, name: str) -> Factory:
        if name not in self._entries:
            point = self._points()[name]
            self._entries[name] = _Entry(point.load(), _package(point))
        return self._entries[name].factory

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._entries, *self._points()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._points()

    def source(self, name: str) -> str:
        """Where a name comes from: `idiolect`, a package, or a file."""
        return self._entries[name].source if name in self._entries else _package(self._points()[name])

    def add(self, factory: F, name: str | None = None) -> F:
        """Register one's own factory, under its own name unless told otherwise."""
        name, source = name or factory.__name__, origin(factory)
        known = self._entries.get(name)
        if known is not None and not _same(known.factory, factory):
            raise UserMistake(
                f"{self.one} '{name}' of {source} has the name of one that comes from {known.source}; "
                "call it something else"
            )
        self._entries[name] = _Entry(factory, source)
        return factory

    def _points(self) -> dict[str, EntryPoint]:
        if self._installed is None:
            self._installed = {point.name: point for point in entry_points(group=f"idiolect.{self.kind}")}
        return self._installed

    def __call__(self, factory: F) -> F:
        """As a decorator: `@idiolect.objective` registers a factory under its own name."""
        return self.add(factory)


def origin(factory: Factory) -> str:
    """The file or the module that a factory is written in, for people."""
    try:
        return str(Path(inspect.getsourcefile(factory) or "").resolve())
    except TypeError:
        return str(getattr(factory, "__module__", "?"))


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else f"module {point.module}"


def _same(one: Factory, other: Factory) -> bool:
    """Is this the same function, perhaps imported once more under another module's name?"""
    names = [getattr(factory, "__qualname__", None) for factory in (one, other)]
    return one is other or (names[0] == names[1] and origin(one) == origin(other))
