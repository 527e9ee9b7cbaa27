"""Recipes from TOML files and from the names of those that ship with the package, with settings on top."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from idiolect.errors import UserMistake
from idiolect.experiments.schema import Recipe, parse_recipe
from idiolect.options import known

_BUILTIN = resources.files("idiolect.recipes")


def builtin_recipes() -> dict[str, str]:
    """The recipes that ship with the package: name -> description."""
    files = sorted((file for file in _BUILTIN.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): tomllib.loads(file.read_text("utf-8"))["description"] for file in files}


def load_recipe(source: str, settings: list[str] | None = None) -> Recipe:
    """A recipe from a TOML file or a built-in name, with `path.to.key=value` settings applied on top."""
    name, text = _text(source)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserMistake(f"recipe {source} is not TOML: {error}") from None
    tables.setdefault("name", name)
    for setting in settings or []:
        _apply(tables, setting)
    return parse_recipe(tables)


def _text(source: str) -> tuple[str, str]:
    """A recipe's name and its text."""
    builtin = builtin_recipes()
    if source in builtin:
        return source, (_BUILTIN / f"{source}.toml").read_text("utf-8")
    path = Path(source)
    if path.is_file():
        return path.stem, path.read_text("utf-8", errors="replace")
    if path.suffix != ".toml":
        known(builtin, "recipe", source)
    raise UserMistake(f"recipe {path} does not exist; `idiolect list` names the recipes that are built in")


def _apply(tables: dict[str, Any], setting: str) -> None:
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise UserMistake(f"setting '{setting}' is not of the form path.to.key=value")
    *parents, last = path.strip().split(".")
    place: Any = tables
    for part in parents:
        place = _member(place, part, setting) if isinstance(place, list) else place.setdefault(part, {})
        if not isinstance(place, dict | list):
            raise UserMistake(f"setting '{setting}': '{part}' is a value, not a table")
    if isinstance(place, list):
        raise UserMistake(f"setting '{setting}' must go on to a key, such as {path}.label")
    place[last] = _value(text)


def _member(members: list[Any], part: str, setting: str) -> Any:
    """A member of a list of tables, by number or by label or name."""
    if not all(isinstance(member, dict) for member in members):
        raise UserMistake(f"setting '{setting}': '{part}' is a value, not a table")
    for number, member in enumerate(members):
        if part in (str(number), member.get("label"), member.get("name")):
            return member
    names = ", ".join(member.get("label") or member.get("name", "?") for member in members)
    raise UserMistake(f"setting '{setting}': there is no '{part}' among {names}")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
