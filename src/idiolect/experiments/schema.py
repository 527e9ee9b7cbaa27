"""The tables of a recipe: one problem, one network, one or several algorithms, some seeds.

A recipe is checked as a whole before anything runs: its own keys here, the options of what it names by the factories'
signatures (`idiolect.options`). A checked recipe has every default written out.
"""

from itertools import pairwise
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from idiolect import catalog
from idiolect.contracts import Screening, StepRule
from idiolect.errors import UserMistake
from idiolect.network.delays import Network
from idiolect.network.unreliable_links import Links
from idiolect.options import Registry, as_written, checked, known, sentence
from idiolect.problems.data.client_splits import Shares
from idiolect.protocols.attacks import Attack

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProblemTable(BaseModel):
    """`[problem]`: images dealt to clients (partition, model), or a synthetic family with its own options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "digits"


class ImageProblem(_Table):
    """The options of an image problem; `partition` and `model` have a `name` and options of their own."""

    name: Literal["digits", "mnist", "fashion_mnist", "cifar10"]
    clients: Count = 30
    samples: Count | None = None
    unseen: Annotated[float, Field(ge=0, lt=1)] = 0.0
    shares: Shares = Shares()
    partition: dict[str, Any] = {"name": "by_classes"}
    model: dict[str, Any] = {"name": "mlp"}


class Training(_Table):
    """`[training]`: how a client descends. An algorithm may have its own values for any of these.

    Without `local_steps` a client takes 10 where there is a server, and 1 where there is none; but a named algorithm
    may have a number of its own (`memrl` takes 1).
    """

    local_steps: Count | None = None
    step_size: Positive = 0.01
    batch_size: Count = 32
    step_rule: StepRule = StepRule()


class OwnTraining(_Table):
    """What one algorithm does otherwise."""

    local_steps: Count | None = None
    step_size: Positive | None = None
    batch_size: Count | None = None
    step_rule: StepRule | None = None


class Evaluation(_Table):
    """`[evaluation]`: when, after how many adaptation steps, on which part, on how many clients.

    A run is scored at the start and at `points` evenly spaced times, or at the given `times`; always at the end.
    `groups` names lists of clients whose scores are told apart as well; `references` are what the problem knows to
    compare with.
    """

    points: Count = 20
    times: list[Annotated[float, Field(ge=0)]] | None = None
    steps: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 1]
    step_size: Positive = 0.01
    batch_size: Count = 32
    split: Literal["test", "validation"] = "test"
    at_most: Count | None = None
    headline: Literal["steps", "own"] = "steps"
    groups: dict[str, Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]] = {}
    references: list[str] = []

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: list[int]) -> list[int]:
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError("numbers of steps must increase")
        return steps


class AlgorithmTable(_Table):
    """`[[algorithms]]`: a name from the catalog or `objective+protocol`, with options for both and a label.

    Some of its clients may be under an `attack` of their own in place of the recipe's.
    """

    name: str
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_+-]*$", max_length=60)] | None = None
    objective: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    training: OwnTraining = OwnTraining()
    attack: Attack | None = None


class Recipe(_Table):
    """A whole experiment.

    `network` is what algorithms with a server meet, `topology` and `links` what those without one do; for these, a
    round is one unit of virtual time. `screening` is what servers do with updates that cannot be right, `attack` who
    falsifies what it sends to them.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)] = "recipe"
    description: str = ""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = [0]
    horizon: Positive = 200.0
    timeline: str | None = None
    problem: ProblemTable = ProblemTable()
    network: Network = Network()
    topology: dict[str, Any] = {"name": "erdos_renyi", "probability": 0.3}
    links: Links = Links()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    screening: Screening = Screening()
    attack: Attack | None = None
    algorithms: Annotated[list[AlgorithmTable], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        labels = self.labels
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two algorithms are called '{twice[0]}'; give one a label of its own")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat themselves")
        late = [time for time in self.evaluation.times or [] if time > self.horizon]
        if late:
            raise ValueError(f"evaluation.times has {late[0]:g}, but the run ends at horizon {self.horizon:g}")
        return self

    @property
    def labels(self) -> list[str]:
        """What each algorithm is called in the results."""
        return [table.label or table.name for table in self.algorithms]


def parse_recipe(tables: dict[str, Any]) -> Recipe:
    """Check a recipe's tables, the options of everything they name included."""
    try:
        recipe = Recipe.model_validate(tables)
    except ValidationError as error:
        raise UserMistake(sentence(error, model=Recipe)) from None
    algorithms = [_complete(table) for table in recipe.algorithms]
    topology = _complete_choice(catalog.TOPOLOGIES, "topology", recipe.topology)
    return recipe.model_copy(
        update={"problem": _complete_problem(recipe), "topology": topology, "algorithms": algorithms}
    )


def _complete_problem(recipe: Recipe) -> ProblemTable:
    """The problem with every option written out, defaults included."""
    images, name = image_problem(recipe), recipe.problem.name
    if images is not None:
        return ProblemTable(**_plain(images))
    options = checked(catalog.SYNTHETIC, "problem", name, _options(recipe))
    return ProblemTable(name=name, **_plain(as_written(options)))


def _complete(table: AlgorithmTable) -> AlgorithmTable:
    """The table with every option of its objective and protocol written out, defaults included."""
    chosen = catalog.cell(table.name)
    objective = catalog.objective_options(chosen, table.objective, f"{table.name}: objective")
    protocol = checked(catalog.PROTOCOLS, f"{table.name}: protocol", chosen.protocol, table.protocol)
    # As plain values, so that a recipe that was written and read again is the same recipe.
    return table.model_copy(
        update={"objective": _plain(as_written(objective)), "protocol": _plain(as_written(protocol))}
    )


def image_problem(recipe: Recipe) -> ImageProblem | None:
    """The checked and completed options of an image problem; None for a synthetic one."""
    name = recipe.problem.name
    known([*catalog.IMAGES, *catalog.SYNTHETIC], "problem.name", name)
    if name in catalog.SYNTHETIC:
        return None
    try:
        table = ImageProblem.model_validate({"name": name, **_options(recipe)})
    except ValidationError as error:
        raise UserMistake(sentence(error, "problem", model=ImageProblem)) from None
    partition = _complete_choice(catalog.PARTITIONS, "problem.partition", table.partition)
    model = _complete_choice(catalog.MODELS, "problem.model", table.model)
    return table.model_copy(update={"partition": partition, "model": model})


def _complete_choice(registry: Registry, what: str, choice: dict[str, Any]) -> dict[str, Any]:
    """A `{ name = ..., options }` table with every option written out."""
    if "name" not in choice:
        raise UserMistake(f"{what}.name is missing; known are {', '.join(registry)}")
    options = {key: value for key, value in choice.items() if key != "name"}
    return {"name": choice["name"], **as_written(checked(registry, what, choice["name"], options))}


def _options(recipe: Recipe) -> dict[str, Any]:
    return dict(recipe.problem.model_extra or {})


def write_recipe(recipe: Recipe) -> str:
    """The checked recipe as TOML, which `load_recipe` reads back."""
    return tomli_w.dumps(_plain(recipe))


def _plain(value: Any) -> Any:
    """Tables, lists and values as TOML knows them; what is None is left out."""
    if isinstance(value, BaseModel):
        value = dict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
