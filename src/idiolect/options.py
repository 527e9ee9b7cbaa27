"""Named choices with checked options: `{ name = "moreau", lambda = 20 }` -> a call of the factory `moreau`.

A factory's signature is the only place where its options, their defaults and their bounds are written down. Nothing
here imports by name: a name is looked up in a table that the code wrote.
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from idiolect.errors import UserMistake

Registry = Mapping[str, Callable[..., Any]]


def make(registry: Registry, what: str, name: str, options: Mapping[str, Any], *args: Any, **given: Any) -> Any:
    """Call the factory `name` with checked `options`, and with what the caller adds."""
    return registry[name](*args, **checked(registry, what, name, options), **given)


def choose(registry: Registry, what: str, choice: Mapping[str, Any], *args: Any) -> Any:
    """The same from one table that holds the name and the options."""
    return make(registry, what, choice["name"], {key: choice[key] for key in choice if key != "name"}, *args)


def checked(registry: Registry, what: str, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The factory's keyword arguments, complete with defaults, or one sentence on what is wrong."""
    known(registry, what, name)
    model = _options_model(registry[name])
    try:
        values = model.model_validate(dict(options))
    except ValidationError as error:
        raise UserMistake(
            sentence(error, what, (field.alias or key for key, field in model.model_fields.items()))
        ) from None
    return {key: getattr(values, key) for key in type(values).model_fields}


def as_written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Checked options under the names a user writes (`lambda`, not `lambda_`), without those that are not set."""
    return {name.rstrip("_"): value for name, value in options.items() if value is not None}


def known(names: Iterable[str], what: str, name: str) -> None:
    """Refuse a name that is not in the table, and say which ones are."""
    choices, name = list(names), str(name)
    if name not in choices:
        raise UserMistake(f"{what} is '{name}'{_guess(name, choices)}; known are {', '.join(choices)}")


def sentence(error: ValidationError, where: str = "", fields: Iterable[str] = (), model: Any = None) -> str:
    """The first complaint of pydantic in one sentence: the field, the value, what would be right."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in (where, *first["loc"]) if part != "")
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        names = list(fields) if model is None else _fields_at(model, first["loc"][:-1])
        listed = f"; known are {', '.join(names)}" if names else ""
        return f"{path} is not a known key{_guess(str(first['loc'][-1]), names)}{listed}"
    if first["type"] in ("missing", "missing_argument"):
        return f"{path} is missing"
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    return f"{path} is {first['input']!r}, but {first['msg'][0].lower() + first['msg'][1:]}"


def _options_model(factory: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(factory, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name == "seed":
            continue  # positional arguments and the seed come from the code, not from the user
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (hints[name], Field(default, alias=name.rstrip("_")))
    return create_model(factory.__name__, __config__=ConfigDict(extra="forbid", strict=False), **fields)


def _guess(name: str, choices: list[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _fields_at(table: Any, path: Iterable[str | int]) -> list[str]:
    """The keys of a table nested in another: of a model, or of a named tuple in one."""
    for part in path:
        if isinstance(part, str):
            table = _innermost(get_type_hints(table)[part])
    return list(table.model_fields) if hasattr(table, "model_fields") else list(getattr(table, "_fields", ()))


def _innermost(hint: Any) -> Any:
    """The table's type in `Table | None`, `list[Table]` or `Annotated[list[Table], ...]`."""
    while inner := [argument for argument in get_args(hint) if argument is not type(None)]:
        hint = inner[0]
    return hint
