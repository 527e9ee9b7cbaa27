"""An experiment as a plain value: one problem, one network, one or several algorithms, some seeds.

Everything in it is checked when it is made, with the same sentences whether it is written in Python or read from a
recipe. What it names (a problem, an algorithm) is looked up when it is completed or built, and not before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field, ValidationError, model_validator

from idiolect.contracts import Algorithm, Problem, Screening
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import (
    Chosen,
    Count,
    Evaluation,
    NamedAlgorithm,
    Positive,
    Start,
    Table,
    Training,
    plain_name,
)
from idiolect.network.delays import Network
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.network.topologies import Topology, Wire
from idiolect.network.unreliable_links import Links
from idiolect.options import Seed, as_choice, sentence
from idiolect.protocols.attacks import Attack
from idiolect.registry import Choice

HORIZON = 200.0  # where neither it nor a number of rounds is given


class _Tables(Table):
    """The keys of an experiment, each of its type; a problem, a topology or a timeline of one's own passes as it is."""

    name: Annotated[str, plain_name("_.-", 80)] = "experiment"
    description: str = ""
    factory: str | None = None
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(default=[0])
    horizon: Positive | None = None
    rounds: Count | None = None
    timeline: Any = None
    problem: Any = Choice("digits")
    network: Network = Network()
    topology: Any = Choice("erdos_renyi", {"probability": 0.3})
    links: Links = Links()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    screening: Screening = Screening()
    attack: Attack | None = None
    start: Start | None = None
    chosen: Chosen | None = None
    algorithms: Annotated[list[NamedAlgorithm], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> "_Tables":
        labels = [line.label or line.name for line in self.algorithms]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two algorithms are called '{twice[0]}'; give one a label of its own")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat themselves")
        if self.rounds is not None and self.horizon not in (None, self.rounds):
            raise ValueError(
                f"has rounds {self.rounds} and horizon {self.horizon:g}, but one of both says when it ends"
            )
        if self.rounds is not None and self.timeline is not None:
            raise ValueError(
                f"has rounds {self.rounds} and a timeline, which says itself how many there are; leave it out"
            )
        late = [time for time in self.evaluation.times or [] if time > self.end]
        if late:
            word = "horizon" if self.rounds is None else "round"
            raise ValueError(f"evaluation.times has {late[0]:g}, but the run ends at {word} {self.end:g}")
        return self

    @property
    def end(self) -> float:
        """When a run ends."""
        return self.horizon or self.rounds or HORIZON


ProblemSource: TypeAlias = Choice | Problem | Callable[[int], Problem]
Line: TypeAlias = NamedAlgorithm | Algorithm


@dataclass(frozen=True)
class Experiment:
    """A whole experiment, as a value.

    Args:
        problem: A problem, a function of the seed that makes one, or a choice from the catalog.
        algorithms: Names of the catalog (with options as `NamedAlgorithm`), or `Algorithm` records of one's own.
        seeds: One run of every algorithm for each.
        horizon: When a run ends, in virtual time; a round without a server is one unit of it. By default 200.
        rounds: In its place, after how many rounds of each algorithm. Time is then counted in rounds: those of a server
            take one unit each, however long the network makes them, and clients that learn alone take a turn in each.
            What has a server and no rounds is refused.
        network: What algorithms with a server meet.
        topology: What algorithms without a server meet: who can send to whom.
        links: And what agents and links do to messages.
        timeline: A table, or the path of one, in place of what would be drawn from the network or the links.
        training: How clients descend.
        evaluation: When models are scored, and how they are adapted first.
        screening: What servers do with updates that cannot be right.
        attack: Who falsifies what it sends to them.
        start: The trained model that every algorithm begins with, if not with a drawn one.
        chosen: How the settings of its algorithms were found.
        name: What the run is called.
        description: A sentence on it.
        factory: The importable function that made it, if one did: `module:function` or `file.py:function`.

    Example:
        >>> from idiolect import Choice, Experiment
        >>> Experiment(Choice("quadratics"), ["fedavg", "persa_fl_me"], seeds=[0, 1]).labels
        ['fedavg', 'persa_fl_me']
    """

    problem: ProblemSource = Choice("digits")
    algorithms: Sequence[str | Line] = ()
    seeds: Sequence[int] = (0,)
    horizon: float = cast("float", None)  # a number as soon as there is an experiment: by default 200, or the rounds
    rounds: int | None = None
    network: Network = Network()
    topology: Choice | Wire = Choice("erdos_renyi", {"probability": 0.3})
    links: Links = Links()
    timeline: str | Timeline | Rounds | None = None
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    screening: Screening = Screening()
    attack: Attack | None = None
    start: Start | None = None
    chosen: Chosen | None = None
    name: str = "experiment"
    description: str = ""
    factory: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.algorithms, str | NamedAlgorithm | Algorithm):
            object.__setattr__(self, "algorithms", [self.algorithms])
        tables = _checked({field.name: getattr(self, field.name) for field in fields(self)})
        own = {place: line for place, line in enumerate(self.algorithms) if isinstance(line, Algorithm)}
        for name, value in tables.items():
            object.__setattr__(self, name, value)
        lines = [own.get(place, line) for place, line in enumerate(tables["algorithms"])]
        object.__setattr__(self, "algorithms", lines)

    @property
    def lines(self) -> list[Line]:
        """The algorithms; what was given as a bare name has become a record."""
        return [line for line in self.algorithms if not isinstance(line, str)]

    @property
    def labels(self) -> list[str]:
        """What each algorithm is called in the results."""
        return [line.name if isinstance(line, Algorithm) else line.label or line.name for line in self.lines]

    def replace(self, **changes: Any) -> "Experiment":
        """The same experiment with some parts changed; a horizon takes the place of rounds, and rounds that of it."""
        for one, other in (("rounds", "horizon"), ("horizon", "rounds")):
            if one in changes:
                changes.setdefault(other, None)
        return replace(self, **changes)


def from_tables(tables: Mapping[str, Any]) -> Experiment:
    """An experiment from the tables of a recipe, checked as far as that goes without looking up names."""
    return Experiment(**_checked(tables))


def _checked(tables: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(tables)
    if isinstance(found.get("algorithms"), list | tuple):
        found["algorithms"] = [_as_table(line) for line in found["algorithms"]]
    if found.get("algorithms") in ((), []):
        raise UserMistake("algorithms is empty, but an experiment needs at least one")
    if isinstance(found.get("algorithms"), Mapping):
        raise UserMistake("algorithms is one table, but must be a list of them; in a recipe write [[algorithms]]")
    if isinstance(graph := found.get("topology"), Topology):
        raise UserMistake(
            f"topology is a graph of {graph.agents} agents, but must be a function that wires any number of them, such "
            "as ring(), or lambda agents, rng: graph"
        )
    for part, kinds in (("problem", (Problem,)), ("topology", ())):
        if part in found and not callable(found[part]) and not isinstance(found[part], kinds):
            found[part] = as_choice(found[part], part)
    if isinstance(timeline := found.get("timeline"), Path):
        found["timeline"] = str(timeline)
    elif not isinstance(timeline, str | Timeline | Rounds | None):
        raise UserMistake(f"timeline is {timeline!r}, but must be a table of turns or rounds, or a file's path")
    try:
        checked = _Tables.model_validate(found)
        return {**dict(checked), "horizon": float(checked.end)}
    except ValidationError as error:
        raise UserMistake(sentence(error, _Tables)) from None


def _as_table(line: Any) -> Any:
    """An algorithm's table: of a bare name, and in place of a record, whose name must be free as well."""
    if isinstance(line, Algorithm):
        return {"name": "own", "label": line.name}
    return {"name": line} if isinstance(line, str) else line
