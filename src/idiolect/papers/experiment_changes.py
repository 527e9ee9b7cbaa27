"""How the experiment of a built-in recipe becomes that of another scale: small pure changes of its parts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.value import Experiment, Line, ProblemSource
from idiolect.network.topologies import Wire
from idiolect.options import known
from idiolect.registry import Choice

Change: TypeAlias = Callable[[Experiment], Experiment]
Table = TypeVar("Table", bound=BaseModel)


def unchanged(experiment: Experiment) -> Experiment:
    """The recipe as it ships."""
    return experiment


def changed(table: Table, **changes: Any) -> Table:
    """The same table (training, evaluation) with some keys changed, and checked like a new one."""
    return type(table).model_validate({**dict(table), **changes})


def chosen(choice: ProblemSource | Wire, **options: Any) -> Choice:
    """The same choice of a problem or a topology with some options changed."""
    if not isinstance(choice, Choice):
        raise TypeError(f"a recipe names what it chooses, but this is {choice!r}")
    return Choice(choice.name, {**choice.options, **options})


def with_options(
    experiment: Experiment,
    *labels: str,
    objective: Mapping[str, Any] = {},
    protocol: Mapping[str, Any] = {},
    training: Mapping[str, Any] = {},
) -> Experiment:
    """The same experiment with some options changed of the algorithms with these labels."""
    _must_have(experiment, labels)

    def line(label: str, table: Line) -> Line:
        if label not in labels or not isinstance(table, NamedAlgorithm):
            return table
        return changed(
            table,
            objective={**table.objective, **objective},
            protocol={**table.protocol, **protocol},
            training=changed(table.training, **training),
        )

    lines = [line(*pair) for pair in zip(experiment.labels, experiment.lines, strict=True)]
    return experiment.replace(algorithms=lines)


def keeping(experiment: Experiment, labels: Sequence[str]) -> Experiment:
    """The same experiment with these algorithms only, in the experiment's own order."""
    _must_have(experiment, labels)
    pairs = zip(experiment.labels, experiment.lines, strict=True)
    return experiment.replace(algorithms=[line for label, line in pairs if label in labels])


def _must_have(experiment: Experiment, labels: Sequence[str]) -> None:
    for label in labels:
        known(experiment.labels, "algorithm", label)
