"""Named choices with checked options: `{ name = "moreau", lambda = 20 }` -> a call of the factory `moreau`.

A factory's signature is the only place where its options, their defaults and their bounds are written down: they are
its keyword arguments. An option may itself be a choice from another registry; it is marked `OneOf(registry)`, and the
factory gets a function that makes what was chosen. Nothing here imports by name: a name is looked up in a table.
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from idiolect.errors import UserMistake
from idiolect.registry import REGISTRIES, Choice, Factory, Registry

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
GIVEN = ("seed", "data_dir")  # what a factory may want that comes from the run, not from its user


_OURS = "Value error, "  # what pydantic puts before sentences of ours
_LONGEST = 200  # characters of a value in a sentence


class TableMistake(UserMistake):
    """A mistake in a table of its own, told from that table's keys on, or of the table as a whole."""

    def __init__(self, said: str, *, of_whole: bool = False) -> None:
        super().__init__(said)
        self.of_whole = of_whole

    def within(self, path: str) -> str:
        """The same, told from outside of the table."""
        return f"{path}{' ' if self.of_whole else '.'}{self}" if path else str(self)


class OneOf(NamedTuple):
    """Marks an option that is a choice from a registry, as in `Annotated[Maker, OneOf("models")]`."""

    kind: str

    @property
    def registry(self) -> Registry:
        """Looked up when it is needed, since registries hold the factories that use them."""
        return REGISTRIES[self.kind]


class NamesFiles(NamedTuple):
    """Marks an option that names files of data; whoever runs the problem notes a digest of their content."""


def file_options(factory: Factory) -> list[str]:
    """The options of a factory that name files of data."""
    hints = get_type_hints(factory, include_extras=True)
    return [name for name, hint in hints.items() if any(isinstance(mark, NamesFiles) for mark in get_args(hint)[1:])]


def make(registry: Registry, what: str, choice: Choice, *args: Any, **given: Any) -> Any:
    """Call the chosen factory with checked options, and with what it wants of the arguments that the caller adds."""
    return maker(registry, what, choice)(*args, **_wanted(registry[choice.name], given))


def maker(registry: Registry, what: str, choice: Choice) -> Factory:
    """The chosen factory with its options checked and filled in, not yet called."""
    options, nested = checked(registry, what, choice), _nested(registry[choice.name])
    for name, inner in nested.items():
        if options[name] is not None:
            options[name] = maker(inner.registry, f"{what}.{name}", options[name])
    return partial(registry[choice.name], **options)


def checked(registry: Registry, what: str, choice: Choice) -> dict[str, Any]:
    """The factory's keyword arguments, complete with defaults, or one sentence on what is wrong."""
    known(registry, what, choice.name)
    factory = registry[choice.name]
    model, nested = options_model(factory), _nested(factory)
    try:
        values = model.model_validate(dict(choice.options))
    except ValidationError as error:
        raise UserMistake(sentence(error, model, what)) from None
    found = {key: getattr(values, key) for key in type(values).model_fields}
    for name, inner in nested.items():
        where = f"{what}.{name}"
        if found[name] is not None:  # which an option with the default None may stay
            found[name] = complete(inner.registry, where, as_choice(found[name], where, inner.registry))
    return found


def complete(registry: Registry, what: str, choice: Choice) -> Choice:
    """The choice with every option written out, defaults included, under the names that a user writes."""
    return Choice(choice.name, as_written(checked(registry, what, choice)))


def as_choice(value: Any, what: str, names: Iterable[str] = ()) -> Choice:
    """A choice from a name, or from a table with a `name` and options; `names` are told to who gives none."""
    if isinstance(value, Choice):
        return value
    if isinstance(value, str):
        return Choice(value)
    if callable(value):  # the default of an option, as its factory's signature has it
        return Choice(value.__name__)
    if not isinstance(value, Mapping):
        raise UserMistake(f"{what} is {_shown(value)}, but must be a name, or a table with a name and options")
    if "name" not in value:
        raise UserMistake(f"{what}.name is missing{_listed(names)}")
    return Choice(value["name"], {key: inner for key, inner in value.items() if key != "name"})


def as_written(options: Mapping[str, Any]) -> dict[str, Any]:
    """Checked options under the names a user writes (`lambda`, not `lambda_`), without those that are not set."""
    return {name.rstrip("_"): _as_read(value) for name, value in options.items() if value is not None}


def _as_read(value: Any) -> Any:
    """A value as a recipe would give it, with lists for tuples, so that defaults equal what is written out."""
    if hasattr(value, "_fields"):
        return type(value)(*map(_as_read, value))
    if isinstance(value, list | tuple):
        return [_as_read(inner) for inner in value]
    return {key: _as_read(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def known(names: Iterable[str], what: str, name: str) -> None:
    """Refuse a name that is not in the table, and say which ones are."""
    choices, name = list(names), str(name)
    if name not in choices:
        raise UserMistake(f"{what} is '{name}'{_guess(name, choices)}{_listed(choices)}")


def checked_value(what: str, kind: Any, value: Any) -> Any:
    """An argument of a Python function as its type has it, or one sentence on why it is none."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserMistake(_complaint(first, ".".join([what, *_named(first["loc"], kind)]))) from None


def sentence(error: ValidationError, model: type[BaseModel], where: str = "") -> str:
    """The first complaint of pydantic in one sentence: the field, the value, what would be right."""
    first = error.errors()[0]
    place = [part for part in (where, *_named(first["loc"], model)) if part != ""]
    path = ".".join(place)
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        names = _fields_at(model, first["loc"][:-1])
        return f"{path} is not a known key{_guess(place[-1], names)}{_listed(names)}"
    if first["type"] in ("missing", "missing_argument"):
        return f"{path} is missing"
    cause = (first.get("ctx") or {}).get("error")
    if isinstance(cause, TableMistake):
        return cause.within(path)
    if isinstance(cause, UserMistake):  # it names its key, but not where
        return ".".join([*place[:-1], str(cause)])
    if not first["loc"]:
        return first["msg"].removeprefix(_OURS)
    return _complaint(first, path)


def _named(path: Sequence[str | int], table: Any) -> list[str]:
    """A path in words; some versions of pydantic tell of a named tuple's fields by number."""
    found: list[str] = []
    for number, part in enumerate(path):
        names = getattr(_table_at(table, path[:number]), "_fields", ())
        found.append(names[part] if isinstance(part, int) and part < len(names) else str(part))
    return found


def _complaint(first: Any, path: str) -> str:
    """What pydantic says of a value, with the whole path to it."""
    message = first["msg"].removeprefix(_OURS)
    return f"{path} is {_shown(first['input'])}, but {message[0].lower() + message[1:]}"


def _shown(value: Any) -> str:
    """A value in a sentence; of what is long, the kind will do."""
    text = repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else f"a {type(value).__name__}"


def _wanted(factory: Factory, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of it the factory has a parameter for."""
    parameters = inspect.signature(factory).parameters
    return {name: value for name, value in given.items() if name in parameters}


def options_model(factory: Factory) -> type[BaseModel]:
    """The options of a factory as a model that checks them."""
    hints, nested = get_type_hints(factory, include_extras=True), _nested(factory)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY or name in GIVEN:
            continue  # positional arguments and what the run gives come from the code, not from the user
        default = ... if parameter.default is parameter.empty else parameter.default
        kind = Any if name in nested else hints.get(name, Any)
        fields[name] = (kind, Field(default, alias=name.rstrip("_")))
    return create_model(factory.__name__, __config__=ConfigDict(extra="forbid", strict=False), **fields)


def _nested(factory: Factory) -> dict[str, OneOf]:
    """The options of a factory that are choices themselves."""
    hints = get_type_hints(factory, include_extras=True)
    marks = {name: [mark for mark in get_args(hint)[1:] if isinstance(mark, OneOf)] for name, hint in hints.items()}
    return {name: found[0] for name, found in marks.items() if found}


def _guess(name: str, choices: list[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _listed(names: Iterable[str]) -> str:
    """What would be known, at the end of a sentence."""
    known_ones = ", ".join(names)
    return f"; known are {known_ones}" if known_ones else ""


def _fields_at(table: Any, path: Iterable[str | int]) -> list[str]:
    """The keys of a table nested in another: of a model, or of a named tuple in one."""
    return list(_hints(_table_at(table, path)))


def _table_at(table: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        if isinstance(part, str):
            table = _innermost(_hints(table).get(part))
    return table


def _hints(table: Any) -> dict[str, Any]:
    """The keys of a table as a user writes them, and what each must be."""
    if hasattr(table, "model_fields"):
        return {field.alias or name: field.annotation for name, field in table.model_fields.items()}
    return get_type_hints(table) if hasattr(table, "_fields") else {}


def _innermost(hint: Any) -> Any:
    """The table's type in `Table | None`, `list[Table]` or `Annotated[list[Table], ...]`."""
    while inner := [argument for argument in get_args(hint) if argument is not type(None)]:
        hint = inner[0]
    return hint
