"""Sources from which another process rebuilds an experiment: a recipe's text, or an importable function."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.contracts import Algorithm, Problem
from idiolect.errors import UserMistake
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.describing import describe, is_described, write_experiment
from idiolect.experiments.recipe_files import allow_problem, completed, parse_recipe, read_toml
from idiolect.experiments.value import Experiment, from_tables
from idiolect.own_code import import_code, import_reference, is_reference
from idiolect.registry import Choice


class Source(NamedTuple):
    """What an experiment is made from, elsewhere: a recipe's text or a function, and the code that they need."""

    recipe: str = ""
    factory: str = ""
    code: tuple[str, ...] = ()  # modules and files that register what the recipe names
    data_dir: str | None = None


CellMaker = Callable[[str, int], tuple[Problem, Algorithm]]  # (label, seed)


def source_of(
    experiment: Experiment,
    code: tuple[str, ...] = (),
    data_dir: Path | None = None,
    *,
    who: str = "place.engine is ray, whose actors",
) -> Source:
    """The source of an experiment; a sentence if another process, `who`, could not make it."""
    where = None if data_dir is None else str(data_dir.resolve())
    if experiment.factory is not None:
        return Source(factory=experiment.factory, code=code, data_dir=where)
    if is_described(describe(experiment)):
        raise UserMistake(
            f"{who} must make the experiment for themselves, but parts of it are values of this process; put it into a "
            "function of a module or a script and give that function to run"
        )
    return Source(recipe=write_experiment(experiment), code=code, data_dir=where)


def rebuild(source: Source) -> Experiment:
    """Make the experiment again."""
    for where in source.code:
        import_code(where)
    if source.factory:
        return made_by(source.factory)
    return parse_recipe(read_toml(source.recipe, "the recipe of this run"))


def made_by(reference: str) -> Experiment:
    """The experiment that an importable function makes."""
    found = import_reference(reference)()
    if not isinstance(found, Experiment):
        raise UserMistake(f"{reference} gives {type(found).__name__}, but must give an idiolect.Experiment")
    return completed(found.replace(factory=reference))


def cell_maker(source: Source) -> CellMaker:
    """Problems and algorithms of the experiment behind a source, which is made when the first is asked for."""
    experiment = cache(lambda: rebuild(source))
    where = None if source.data_dir is None else Path(source.data_dir)

    def make(label: str, seed: int) -> tuple[Problem, Algorithm]:
        problem = build_problem(experiment(), seed, where)
        line = experiment().lines[experiment().labels.index(label)]
        return problem, build_algorithm(experiment(), line, problem)

    return make


def saved_source(
    tables: Mapping[str, Any], code: tuple[str, ...], where: str, notice: Callable[[str], None]
) -> Experiment:
    """The experiment that a run folder describes, made runnable by the code that the user's command line names.

    Nothing is imported because a folder says so: a factory, or a problem by reference, is only imported if the command
    line names its module or file. What cannot be made from the folder is told, with what to do instead.
    """
    for named in code:
        notice(f"importing {named}, which the command line names")
        import_code(named)
    if (factory := tables.get("factory")) is not None:
        _check_allowed(str(factory), code, where)
        return made_by(str(factory))
    if is_described(tables):
        raise UserMistake(
            f"{where} belongs to an experiment that was made in Python; go on by calling idiolect.run(experiment, "
            f"out='{where}') again"
        )
    experiment = from_tables(tables)
    problem = experiment.problem
    if isinstance(problem, Choice) and is_reference(problem.name):
        _check_allowed(problem.name, code, where)
        allow_problem(problem.name, lambda sentence: None)
    return completed(experiment)


def _check_allowed(reference: str, code: tuple[str, ...], where: str) -> None:
    module = reference.rpartition(":")[0]
    same = [named for named in code if named == module or Path(named).resolve() == Path(module).resolve()]
    if not same:
        raise UserMistake(
            f"{where} was made by {reference}, which no run folder may have imported; allow it with --with {module}"
        )
