"""Recipes from TOML files, and from the names of those that ship with a package, with settings on top."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from importlib.metadata import entry_points
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.value import Experiment, from_tables
from idiolect.options import as_written, complete, known
from idiolect.own_code import import_reference, is_reference
from idiolect.registry import BUILT_IN, Choice

_BUILTIN = resources.files("idiolect") / "recipes"
_INSTEAD = {"rounds": "horizon", "horizon": "rounds", "epochs": "local_steps", "local_steps": "epochs"}


def builtin_recipes() -> dict[str, str]:
    """The recipes that ship with idiolect and with installed packages: name -> description."""
    found = {name: tomllib.loads(file.read_text("utf-8")) for name, (file, _) in _recipes().items()}
    return {name: str(tables.get("description", "")) for name, tables in found.items()}


def recipe_source(name: str) -> str:
    """Which package a recipe comes from."""
    return _recipes()[name][1]


def recipe_text(name: str) -> str:
    """The text of a recipe that is built in, as it was written."""
    return _recipes()[name][0].read_text("utf-8")


def _recipes() -> dict[str, tuple[Traversable, str]]:
    files = sorted((file for file in _BUILTIN.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    found: dict[str, tuple[Traversable, str]] = {file.name.removesuffix(".toml"): (file, BUILT_IN) for file in files}
    for point in entry_points(group="idiolect.recipes"):  # each is the path of a TOML file
        found[point.name] = (Path(point.load()), f"package {point.dist.name}" if point.dist else point.module)
    return found


def load_recipe(
    source: str | Path, settings: Sequence[str] = (), *, notice: Callable[[str], None] = lambda sentence: None
) -> Experiment:
    """An experiment from a TOML file or the name of a recipe, with `path.to.key=value` settings applied on top.

    Args:
        source: The path of a file, or a name that `idiolect list` has.
        settings: Such as `horizon=50` or `algorithms.persa_fl_me.objective.lambda=25`.
        notice: Hears which code of the user's is imported because the recipe names it.

    Returns:
        The experiment, with every default written out.

    Example:
        >>> from idiolect import load_recipe
        >>> load_recipe("demo", ["horizon=50"]).horizon
        50.0
    """
    name, text = _text(str(source))
    tables = read_toml(text, f"recipe {source}")
    tables.setdefault("name", name)
    applied = [_apply(tables, setting) for setting in settings]
    told = [(id(place), key) for place, key in applied]
    for place, key in applied:  # a setting replaces what the recipe has in its place
        if key in _INSTEAD and (id(place), _INSTEAD[key]) not in told:
            place.pop(_INSTEAD[key], None)
    return parse_recipe(tables, notice=notice)


def parse_recipe(tables: Mapping[str, Any], *, notice: Callable[[str], None] = lambda sentence: None) -> Experiment:
    """Check the tables of a recipe of the user's, the options of everything they name included.

    A problem that is named by a reference is imported here, since the user's own recipe names it.
    """
    experiment = from_tables(tables)
    problem = experiment.problem
    if isinstance(problem, Choice) and is_reference(problem.name):
        allow_problem(problem.name, notice)
    return completed(experiment)


def allow_problem(reference: str, notice: Callable[[str], None]) -> None:
    """Import the function that makes a problem, and let experiments name it."""
    notice(f"importing {reference}, which the recipe names")
    catalog.PROBLEMS.add(import_reference(reference), reference)


def completed(experiment: Experiment) -> Experiment:
    """The experiment with every option of what it names checked and written out, defaults included."""
    if not isinstance(experiment, Experiment):
        raise UserMistake(f"experiment is {type(experiment).__name__}, but must be an idiolect.Experiment")
    changes: dict[str, Any] = {"algorithms": [_completed_line(line) for line in experiment.lines]}
    if isinstance(experiment.problem, Choice):
        known(catalog.PROBLEMS, "problem.name", experiment.problem.name)
        changes["problem"] = complete(catalog.PROBLEMS, "problem", experiment.problem)
    if experiment.start is not None and experiment.start.pretrain is not None:
        changes["start"] = experiment.start.model_copy(update={"pretrain": _completed_start(experiment.start.pretrain)})
    if isinstance(experiment.topology, Choice):
        changes["topology"] = complete(catalog.TOPOLOGIES, "topology", experiment.topology)
    return experiment.replace(**changes)


def _completed_start(line: NamedAlgorithm) -> Any:
    completed_line = _completed_line(line)
    if not catalog.shares_model(line.name):
        raise UserMistake(
            f"start.pretrain is {line.name}, whose clients share no model that others could begin with; choose one "
            "that does, such as fedavg"
        )
    return completed_line


def _completed_line(line: Any) -> Any:
    if not isinstance(line, NamedAlgorithm):
        return line
    objective, protocol = catalog.options_of(line.name, line.objective, line.protocol)
    return line.model_copy(update={"objective": as_written(objective), "protocol": as_written(protocol)})


def read_toml(text: str, what: str) -> dict[str, Any]:
    """The tables of a text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserMistake(f"{what} is not TOML: {error}") from None
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, or a thousand brackets
        raise UserMistake(f"{what} is not TOML that can be read ({type(error).__name__})") from None


def _text(source: str) -> tuple[str, str]:
    """A recipe's name and its text."""
    builtin = _recipes()
    if source in builtin:
        return source, builtin[source][0].read_text("utf-8")
    path = Path(source)
    if path.is_file():
        return path.stem, path.read_text("utf-8", errors="replace")
    if path.suffix != ".toml":
        known(builtin, "recipe", source)
    raise UserMistake(f"recipe {path} does not exist; `idiolect list` names the recipes that are built in")


def _apply(tables: dict[str, Any], setting: str) -> tuple[dict[str, Any], str]:
    """Change what a setting names; where that is: a table and its key."""
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
    return place, last


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
