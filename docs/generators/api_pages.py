"""A page for each package whose `__all__` reaches something: its names with what their docstrings say."""

import importlib
import inspect
import pkgutil
import re
from importlib.util import find_spec
from typing import Any

import idiolect


def pages() -> dict[str, str]:
    """The text of every page by its file's name, and the list of them."""
    shown: set[int] = set()
    made = {f"{name}.md": _page(name, shown) for name in packages()}
    listed = "\n".join(name.removesuffix(".md") for name in made)
    made["list.txt"] = f"```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
    return made


def packages() -> list[str]:
    """Packages with public names. PyTorch's room has none where PyTorch is not installed."""
    found = [module.name for module in pkgutil.walk_packages(idiolect.__path__, "idiolect.") if module.ispkg]
    found = [name for name in found if name != "idiolect.torch" or find_spec("torch")]
    return ["idiolect", *(name for name in found if getattr(importlib.import_module(name), "__all__", []))]


def _page(package: str, shown: set[int]) -> str:
    module = importlib.import_module(package)
    about = (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")
    entries = "\n\n".join(_entry(package, name, getattr(module, name), shown) for name in module.__all__)
    return f"# {package}\n\n{about}\n\n```{{eval-rst}}\n{entries}\n```\n"


def _entry(package: str, name: str, value: Any, shown: set[int]) -> str:
    """One name. What several packages reach is found, by search and by links, where it is reached first."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        about = inspect.getdoc(value) if inspect.ismodule(value) else f"a {type(value).__name__}."
        return f"``{package}.{name}``: {(about or '').splitlines()[0]}"
    again = "\n   :no-index:" if id(value) in shown else ""
    shown.add(id(value))
    if inspect.isclass(value):
        return f".. autoclass:: {package}.{name}\n   :members:{again}"
    return f".. autofunction:: {package}.{name}{again}"


def plain_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain words: what reStructuredText would read into bars and stars is escaped."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...", "..")):
            parts = re.split(r"(`+[^`]*`+)", line)
            lines[k] = "".join(
                part if part.startswith("`") else re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in parts
            )


def without_fields(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Fields of a record stand in its signature; that each is an alias of a number helps nobody."""
    return True if type(value).__name__ in ("_tuplegetter", "member_descriptor") else None
