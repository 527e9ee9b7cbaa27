"""Files that a recipe names: where they are looked for, what they hold, and factories that take them by name.

A file of data is read and never run. A run notes a digest of what it read, so that it goes on with nothing else.
"""

import hashlib
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

from idiolect.contracts import Problem
from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.options import NamesFiles
from idiolect.problems.data.datasets import data_folders

Files: TypeAlias = str | list[str]

_SOURCE = re.compile(r"^ {4}source:.*\n(?: {8}.*\n)*", re.MULTILINE)  # of the arguments that a docstring tells
_NAMED = """\
    file: A file, a folder or a list of them, in the working folder or in one for data (`--data-dir`).
    digest: Of what the files hold; a run writes it down, and is refused where they hold something else.
"""


def find_files(named: Files, data_dir: Path | None = None) -> list[Path]:
    """The files or folders of these names, in the working folder or in one of the folders for data."""
    names = [named] if isinstance(named, str) else list(named)
    if not names:
        raise UserMistake("problem.file is empty, but must name a file")
    return [_find(name, data_dir) for name in names]


def _find(name: str, data_dir: Path | None) -> Path:
    own = Path(name).expanduser()
    places = [own] if own.is_absolute() else [own, *(folder / own for folder in data_folders(data_dir))]
    for path in places:
        if path.exists():
            return path
    searched = ", ".join(str(path.parent) for path in places)
    raise UserMistake(
        f"problem.file is '{name}', but there is no such file in {searched}; name its folder with --data-dir"
    )


def content_digest(paths: Sequence[Path]) -> str:
    """A digest of what files hold, and of the names of those that lie in folders."""
    found = hashlib.sha256()
    for path in paths:
        inner = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        for file in inner:
            name = str(file.relative_to(path)) if path.is_dir() else ""
            found.update(f"{name}:{hashlib.sha256(read_whole(file, 'file')).hexdigest()};".encode())
    return found.hexdigest()[:16]


def named_by_file(make: Callable[..., Problem], **kinds: Any) -> Callable[..., Problem]:
    """A factory for recipes, from a function whose first argument is a source: that is named by `file` instead.

    `kinds` are the types of options that a recipe can give less of than Python can.
    """

    def factory(
        *,
        file: Annotated[Files, NamesFiles()],
        digest: str | None = None,
        data_dir: Path | None = None,
        **options: Any,
    ) -> Problem:
        paths = find_files(file, data_dir)
        if digest is not None and content_digest(paths) != digest:
            raise UserMistake(f"problem.file {file} has other content than problem.digest {digest} says")
        return make(paths[0] if isinstance(file, str) else paths, **options)

    own = [one for one in inspect.signature(factory).parameters.values() if one.kind is one.KEYWORD_ONLY]
    theirs = [one for one in inspect.signature(make).parameters.values() if one.kind is one.KEYWORD_ONLY]
    hints = {**get_type_hints(make, include_extras=True), **get_type_hints(factory, include_extras=True), **kinds}
    factory.__signature__ = inspect.Signature([*own, *(one for one in theirs if one.name != "name")])  # type: ignore[attr-defined]
    factory.__annotations__ = {one: hints[one] for one in (*(p.name for p in own), *(p.name for p in theirs))}
    factory.__name__ = factory.__qualname__ = make.__name__
    factory.__doc__ = _SOURCE.sub(_NAMED, inspect.cleandoc(make.__doc__ or ""))
    return factory
