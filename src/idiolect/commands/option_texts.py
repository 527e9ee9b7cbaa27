"""The options of a factory in words: what each may be, its bounds, its default, and what its docstring says of it."""

import inspect
import re
import types
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from idiolect.options import OneOf, options_model
from idiolect.registry import Factory

_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}
_BOUNDS = {Gt: ("gt", "above"), Ge: ("ge", "at least"), Lt: ("lt", "below"), Le: ("le", "at most")}


class OptionText(NamedTuple):
    """One option of a factory, for people."""

    name: str
    kind: str
    default: str  # empty if it must be given
    about: str


def option_texts(factory: Factory) -> list[OptionText]:
    """Every option of a factory, under the name that a recipe has for it."""
    model, about = options_model(factory), arguments(factory)
    hints = inspect.get_annotations(factory, eval_str=True)
    found = []
    for name, field in model.model_fields.items():
        kind = in_words(hints.get(name, field.annotation))
        default = "" if field.is_required() else value_in_words(field.get_default())
        found.append(OptionText(field.alias or name, kind, default, about.get(name, "")))
    return found


def first_sentence(factory: Factory) -> str:
    """What a factory makes, as its docstring begins."""
    return ((inspect.getdoc(factory) or "").strip().splitlines() or [""])[0]


def in_words(hint: Any) -> str:
    """What a value must be."""
    if get_origin(hint) is not None and hasattr(hint, "__metadata__"):
        inner, *marks = get_args(hint)
        chosen = [mark for mark in marks if isinstance(mark, OneOf)]
        if chosen:
            return f"one of the {chosen[0].kind.replace('_', ' ')}: {', '.join(chosen[0].registry)}"
        return " ".join([in_words(inner), *_bounds(marks)])
    if get_origin(hint) is Literal:
        return " or ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(in_words(part) for part in get_args(hint) if part is not type(None))
    if get_origin(hint) in (list, tuple, Sequence):
        parts = [part for part in get_args(hint) if part is not ...]
        return f"list of {' and '.join(dict.fromkeys(map(in_words, parts)))}"
    if get_origin(hint) is dict:
        return "table"
    if hasattr(hint, "_fields"):
        return f"table of {', '.join(hint._fields)}"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)).lower())


def _bounds(marks: list[Any]) -> list[str]:
    flat = [inner for mark in marks for inner in getattr(mark, "metadata", [mark])]  # pydantic's fields hold several
    return [
        f"{word} {getattr(mark, field):g}"
        for mark in flat
        for kind, (field, word) in _BOUNDS.items()
        if isinstance(mark, kind)
    ]


def value_in_words(value: Any) -> str:
    """A default as a recipe would write it."""
    if value is None:
        return "not set"
    if callable(value):
        return str(value.__name__)
    if hasattr(value, "_asdict"):
        return "{ " + ", ".join(f"{key} = {value_in_words(inner)}" for key, inner in value._asdict().items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_in_words, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def arguments(factory: Factory) -> dict[str, str]:
    """What the docstring says of each argument."""
    text = inspect.getdoc(factory) or ""
    section = re.search(r"^Args:\n((?:[ \t].*\n?|\n)*)", text, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^ {4}(\w+):((?:.*\n?)(?:^ {8}.*\n?)*)", section.group(1), re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}
