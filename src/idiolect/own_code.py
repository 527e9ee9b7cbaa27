"""Import of a user's own code by name: what a recipe or command line names is imported, and nothing else ever is.

A reference is `package.module:function` or `path/to/file.py:function`. A file is imported once, under a name made from
its path, with its folder not added to the search path.
"""

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from idiolect.errors import UserMistake

_PREFIX = "idiolect_own_"  # of the names under which files are imported


def is_reference(name: str) -> bool:
    """Is this a name of one's own code, rather than of the catalog?"""
    return ":" in name


def import_reference(reference: str) -> Any:
    """The function that a reference names."""
    where, colon, attribute = reference.rpartition(":")
    if not colon or not where or not attribute.isidentifier():
        raise UserMistake(f"'{reference}' is no reference; write package.module:function or file.py:function")
    found = getattr(import_code(where), attribute, None)
    if not callable(found):
        raise UserMistake(f"'{reference}' names no function: {where} has no function {attribute}")
    return found


def import_code(where: str) -> ModuleType:
    """A module by its dotted name, or a file by its path."""
    if where.endswith(".py"):
        return _import_file(Path(where))
    if not all(part.isidentifier() for part in where.split(".")):
        raise UserMistake(f"'{where}' is neither a module's dotted name nor the path of a .py file")
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as reason:
        raise UserMistake(f"module {where} cannot be imported: {reason}") from None


def _import_file(path: Path) -> ModuleType:
    whole = path.expanduser().resolve()
    if not whole.is_file():
        raise UserMistake(f"file {path} does not exist")
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) and Path(str(main.__file__)).resolve() == whole:
        return main  # the script that is running is that file
    name = f"{_PREFIX}{hashlib.sha256(str(whole).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def file_of(value: Any) -> str | None:
    """The name of the file that a function of a script, or of a file imported here, is written in."""
    module = getattr(value, "__module__", None) or ""
    if module != "__main__" and not module.startswith(_PREFIX):
        return None
    file = getattr(sys.modules.get(module), "__file__", None)
    return None if file is None else Path(file).name


def reference_to(function: Callable[..., Any]) -> str | None:
    """How another process can import a function; None if it cannot, as of a lambda or a function within another."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name.isidentifier() or module is None:
        return None
    if module == "__main__" or module.startswith(_PREFIX):
        file = inspect.getsourcefile(function)  # a notebook's cell has the name of a file that is not there
        return f"{Path(file).resolve()}:{name}" if file is not None and Path(file).is_file() else None
    return f"{module}:{name}"
