"""Which settings are searched, and over what: ranges on a log or a linear scale, whole numbers, or choices."""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import NamedAlgorithm, OwnTraining
from idiolect.experiments.value import Experiment
from idiolect.options import as_written
from idiolect.registry import Choice

Scale = Literal["log", "linear", "whole", "choice"]
_RANGES: dict[str, Scale] = {"log": "log", "linear": "linear", "whole": "whole"}


class Search(NamedTuple):
    """One setting to search: of an algorithm, or of all that a pattern names and that have such a setting."""

    label: str  # an algorithm's, or a pattern such as *
    part: Literal["objective", "protocol", "training"]
    option: str  # or a key of one that is a table: step_size.value
    scale: Scale
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()

    def has(self, value: Any) -> bool:
        """Is this value one of those that are searched?"""
        if self.scale == "choice":
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    @property
    def name(self) -> str:
        """The setting, as a recipe's table of an algorithm has it."""
        return f"{self.part}.{self.option}"

    def __str__(self) -> str:
        if self.scale == "choice":
            return "|".join(map(str, self.choices))
        return f"{self.scale}:{self.low:g}:{self.high:g}"


def read_search(text: str) -> Search:
    """A search from `algorithms.LABEL.PART.OPTION=SPEC`, or `training.OPTION=SPEC` for every algorithm.

    Args:
        text: SPEC is `log:LOW:HIGH`, `linear:LOW:HIGH`, `whole:LOW:HIGH`, or choices such as `0.5|1.0`. A LABEL may be
            a pattern; what has no such option is then left as it is. OPTION may go on to a key of a table, such as
            `lambda.growth`.

    Returns:
        The search.

    Example:
        >>> from idiolect.tuning import read_search
        >>> read_search("algorithms.persa_fl_me.objective.lambda=log:1:100").name
        'objective.lambda'
    """
    path, equals, spec = text.partition("=")
    parts = path.strip().split(".")
    if parts[0] == "training":
        parts = ["algorithms", "*", *parts]
    parted = len(parts) in (4, 5) and parts[0] == "algorithms" and parts[2] in ("objective", "protocol", "training")
    if not equals or not parted:
        raise UserMistake(
            f"--search is '{text}', but must be training.OPTION=SPEC or algorithms.LABEL.PART.OPTION=SPEC, where PART "
            "is objective, protocol or training, such as algorithms.persa_fl_me.objective.lambda=log:1:100"
        )
    option, (kind, colon, limits) = ".".join(parts[3:]), spec.strip().partition(":")
    if not colon:
        return Search(parts[1], parts[2], option, "choice", choices=tuple(map(_value, spec.split("|"))))  # type: ignore[arg-type]
    low, _, high = limits.partition(":")
    if kind not in _RANGES or not _is_range(kind, low, high):
        raise UserMistake(
            f"--search is '{text}', but '{spec}' is no range; write log:LOW:HIGH with LOW above 0, linear:LOW:HIGH or "
            "whole:LOW:HIGH with LOW below HIGH, or choices such as 0.5|1.0"
        )
    return Search(parts[1], parts[2], option, _RANGES[kind], float(low), float(high))  # type: ignore[arg-type]


def _is_range(kind: str, low: str, high: str) -> bool:
    try:
        return float(low) < float(high) and (kind != "log" or float(low) > 0)
    except ValueError:
        return False


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def searches_of(experiment: Experiment, line: NamedAlgorithm, searches: list[Search]) -> list[Search]:
    """The searches that an algorithm has settings for; one that names it and finds none is refused."""
    label, found = line.label or line.name, []
    objective, protocol = catalog.options_of(line.name, line.objective, line.protocol)
    known = {
        "objective": dict.fromkeys(name.rstrip("_") for name in objective) | as_written(objective),
        "protocol": dict.fromkeys(protocol) | as_written(protocol),
        "training": dict.fromkeys(OwnTraining.model_fields),
    }
    for search in searches:
        if fnmatchcase(label, search.label):
            option, *inner = search.option.split(".")
            if option in known[search.part]:
                if inner and not _is_table(known[search.part][option]):
                    raise UserMistake(f"--search names {search.name} of {label}, but its {option} is not a table")
                found.append(search)
            elif search.label == label:
                options = ", ".join(known[search.part]) or "none"
                raise UserMistake(f"--search names {search.name} of {label}, which has the options {options}")
    return found


def settings_of(experiment: Experiment, line: NamedAlgorithm, searches: list[Search]) -> dict[str, Any] | None:
    """What a completed algorithm has for the settings that are searched; None if the search leaves any of them out."""
    training = {**dict(experiment.training), **{k: v for k, v in dict(line.training).items() if v is not None}}
    tables: dict[str, Any] = {"objective": line.objective, "protocol": line.protocol, "training": training}
    found = {search.name: _at(tables, search.name) for search in searches}
    return found if all(search.has(found[search.name]) for search in searches) else None


def _at(tables: Any, path: str) -> Any:
    for key in path.split("."):
        tables = _as_table(tables).get(key)
    return tables


def with_settings(line: NamedAlgorithm, settings: dict[str, Any]) -> NamedAlgorithm:
    """The algorithm with some of its settings replaced, by the names that `Search.name` gives."""
    tables = {"objective": dict(line.objective), "protocol": dict(line.protocol), "training": dict(line.training)}
    for name, value in settings.items():
        part, option, *inner = name.split(".")
        tables[part][option] = _with_key(tables[part][option], inner[0], value) if inner else value
    return line.model_copy(update={**tables, "training": OwnTraining.model_validate(tables["training"])})


def _is_table(value: Any) -> bool:
    """Is it a table of options, such as a rate that changes?"""
    return isinstance(value, Mapping) or hasattr(value, "_asdict")


def _with_key(table: Any, key: str, value: Any) -> dict[str, Any]:
    return {**_as_table(table), key: value}


def _as_table(value: Any) -> Mapping[str, Any]:
    """A table of options as a mapping; of a choice, its name beside its options."""
    if isinstance(value, Choice):
        return {"name": value.name, **value.options}
    return value if isinstance(value, Mapping) else value._asdict()
