"""The tables of a recipe: training, evaluation, named algorithms, trained starts, and how settings were chosen."""

from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from idiolect.contracts import LocalOptimizer, StepRule, TrainOrder
from idiolect.evaluation.neighbours import NEIGHBOURS, Neighbours
from idiolect.options import TableMistake, sentence
from idiolect.protocols.attacks import Attack

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


def plain_name(signs: str, longest: int) -> AfterValidator:
    """A check of names that become parts of paths."""

    def check(name: str) -> str:
        begins = name[:1].isascii() and name[:1].isalnum()
        if not begins or not all((one.isascii() and one.isalnum()) or one in signs for one in name):
            told = " ".join(signs)
            raise ValueError(f"must begin with a letter or a digit, and go on with letters, digits and {told}")
        if len(name) > longest:
            raise ValueError(f"must have {longest} characters at most, and has {len(name)}")
        return name

    return AfterValidator(check)


FileName = Annotated[str, plain_name("_+-", 60)]


class Table(BaseModel):
    """A table of a recipe: frozen, and without keys that nobody knows. What is wrong with it is told in a sentence."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise TableMistake(sentence(error, type(self)), of_whole=not error.errors()[0]["loc"]) from None


class Training(Table):
    """`[training]`: how a client descends. An algorithm may have its own values for any of these.

    Args:
        local_steps: By default 10 where there is a server, and 1 where there is none; but a named algorithm may have a
            number of its own (`memrl` takes 1).
        step_size: Of a local step.
        batch_size: Samples of a gradient.
        step_rule: How the step size changes from round to round; with a server that has none, from update to update.
        optimizer: How a client steps along its gradients: `sgd`, the default, `momentum` or `adam`.
        epochs: In place of `local_steps`, how many passes over its training part a client takes in a turn. A pass over
            n rows has n / `batch_size` steps, rounded up, each on a batch that is drawn anew.
        side_by_side: How many clients' turns the simulator computes at once, where there is a server: for accelerators.
            On CPUs one, if nothing is said, which was fastest in most cases (docs/speed.md). Other numbers change the
            last digits.

    Example:
        >>> from idiolect import Training
        >>> Training(local_steps=5).step_size
        0.01
    """

    local_steps: Count | None = None
    step_size: Positive = 0.01
    batch_size: Count = 32
    step_rule: StepRule = StepRule()
    optimizer: LocalOptimizer | None = None
    epochs: Count | None = None
    side_by_side: Count | None = None

    @model_validator(mode="after")
    def _counted_once(self) -> "Training":
        return _counted_once(self)


_Descent = TypeVar("_Descent", "Training", "OwnTraining")


def _counted_once(table: _Descent) -> _Descent:
    """Refuse two numbers that say how long a turn is."""
    if table.local_steps is not None and table.epochs is not None:
        raise ValueError(
            f"has local_steps {table.local_steps} and epochs {table.epochs}, but one of both says how long a turn is"
        )
    return table


class OwnTraining(Table):
    """What one algorithm does otherwise.

    The fields are those of `Training`; one that is not given is the experiment's.

    Example:
        >>> from idiolect import NamedAlgorithm, OwnTraining
        >>> NamedAlgorithm(name="fedavg", training=OwnTraining(step_size=0.1)).training.step_size
        0.1
    """

    local_steps: Count | None = None
    step_size: Positive | None = None
    batch_size: Count | None = None
    step_rule: StepRule | None = None
    optimizer: LocalOptimizer | None = None
    epochs: Count | None = None
    side_by_side: Count | None = None

    @model_validator(mode="after")
    def _counted_once(self) -> "OwnTraining":
        return _counted_once(self)

    def over(self, training: Training) -> dict[str, Any]:
        """The experiment's training, with what is given here in its place."""
        own = {key: value for key, value in dict(self).items() if value is not None}
        rest = dict(training)
        if own.keys() & {"epochs", "local_steps"}:  # one takes the place of the other
            rest.update(epochs=None, local_steps=None)
        return {**rest, **own}


class Evaluation(Table):
    """`[evaluation]`: when, after how many adaptation steps, on which part, on how many clients.

    A run is scored at the start, and always at the end.

    Args:
        points: Evenly spaced times of scoring.
        times: These times instead.
        last: Headline scores are means over so many of the last evaluations, fixed beforehand; 1 is the end alone.
        steps: Numbers of adaptation steps, in increasing order.
        step_size: Of an adaptation step.
        batch_size: Samples of its gradient.
        split: The part of the data that is scored.
        at_most: Score a fixed random choice of this many clients of each group.
        headline: Whether the headline numbers are those after steps, those of the model that the objective makes
            itself, or those of the model mixed with its client's neighbours.
        tunes: Which layers the adaptation steps move, by the names that `private` has for them; by default all.
        neighbours: Score the model mixed with its client's nearest neighbours as well (kNN-Per): `k`, `share` and
            `scale`.
        groups: Lists of clients, by name, whose scores are told apart as well.
        references: What the problem knows to compare with.

    Example:
        >>> from idiolect import Evaluation
        >>> Evaluation(steps=[0, 1, 5], split="validation").points
        20
    """

    points: Count = 20
    times: list[Annotated[float, Field(ge=0)]] | None = None
    last: Count = 1
    steps: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 1]
    step_size: Positive = 0.01
    batch_size: Count = 32
    split: Literal["test", "validation"] = "test"
    at_most: Count | None = None
    headline: Literal["steps", "own", "neighbours"] = "steps"
    tunes: Annotated[list[str], Field(min_length=1)] | None = None
    neighbours: Neighbours | None = None
    groups: dict[str, Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]] = {}
    references: list[FileName] = []

    @model_validator(mode="after")
    def _has_its_headline(self) -> "Evaluation":
        if self.headline == NEIGHBOURS and self.neighbours is None:
            raise ValueError("has the headline 'neighbours', but no table of that name; write neighbours = {}")
        return self

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: list[int]) -> list[int]:
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError("numbers of steps must increase")
        return steps


class Chosen(Table):
    """`[chosen]`: how the settings of a recipe's algorithms were found, for whoever judges a comparison.

    Every algorithm had as many `trials`, on the `split` of the `seeds`, which are none of those that are scored.
    `search` says what was searched for each setting, `scores` the best score that each algorithm had there.
    """

    split: Literal["validation"] = "validation"
    seeds: list[int]
    trials: Count
    search: dict[str, str] = {}
    scores: dict[str, float] = {}
    note: str = ""


class NamedAlgorithm(Table):
    """`[[algorithms]]`: a name from the catalog or `objective+protocol`, with options for both and a label.

    Args:
        name: From the catalog, or `objective+protocol`.
        label: What it is called in the results; by default its name.
        objective: Options of its objective.
        protocol: Options of its protocol.
        training: Where it descends otherwise than the experiment's others.
        attack: An attack of its own in place of the experiment's.
        private: Which layers stay with the client: `first`, `last`, `body` (all but the last) or patterns of names; by
            default what the named algorithm says, which for most is nothing.
        train_order: Whether what is private learns together with the rest, before it, or not while clients train.
        private_steps: How many local steps of a turn are the private part's, where it learns before the rest.
        tune_steps: By how many steps a client tunes a private part that nobody has trained.

    Example:
        >>> from idiolect import NamedAlgorithm
        >>> NamedAlgorithm(name="maml+buffered", label="mine", objective={"steps": 2}).label
        'mine'
    """

    name: FileName
    label: FileName | None = None
    objective: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    training: OwnTraining = OwnTraining()
    attack: Attack | None = None
    private: list[str] | None = None
    train_order: TrainOrder | None = None
    private_steps: Count | None = None
    tune_steps: Annotated[int, Field(ge=0)] | None = None


class Start(Table):
    """`[start]`: every algorithm begins with a model that has been trained, and not with a drawn one.

    It is the model that a run's server held at the end, seed by seed: of a run in a folder, or of one that is run
    first, on the same problem and network and into the folder `start` of the run's own. In a recipe `start = "folder"`
    is short for a run, and `start = "pretrain"` for FedAvg within the experiment's own horizon. What of a model is
    private is drawn as ever.

    Args:
        run: The folder of a run that has all seeds of this one.
        label: Which of its algorithms; it may be left out where there is only one.
        pretrain: The algorithm to be run first, which must have a model that all share.
        horizon: When it ends; by default when the experiment does. What follows has its whole budget beside this one.
        rounds: In its place, after how many rounds.
        digests: Of the models in `run`, by seed. They are noted when a run begins, and a folder that holds other models
            later is refused.

    Example:
        >>> from idiolect import NamedAlgorithm, Start
        >>> Start(pretrain=NamedAlgorithm(name="fedavg"), horizon=20.0).run is None
        True
    """

    run: str | None = None
    label: FileName | None = None
    pretrain: NamedAlgorithm | None = None
    horizon: Positive | None = None
    rounds: Count | None = None
    digests: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_a_word(cls, value: Any) -> Any:
        if value == "pretrain":
            return {"pretrain": {"name": "fedavg"}}
        return {"run": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _either(self) -> "Start":
        if (self.run is None) == (self.pretrain is None):
            raise ValueError("must have either run, a folder, or pretrain, an algorithm to run first")
        if self.run is not None and (self.horizon or self.rounds) is not None:
            raise ValueError("has a horizon or rounds, which are for pretrain; a run in a folder has come to its end")
        if self.horizon is not None and self.rounds is not None:
            raise ValueError(
                f"has horizon {self.horizon:g} and rounds {self.rounds}, but one of both says when it ends"
            )
        if self.pretrain is not None and (self.label is not None or self.digests):
            raise ValueError("has a label or digests, which are for a run in a folder")
        return self
