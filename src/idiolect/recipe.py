"""An experiment as a TOML file: one problem, one network, one or several algorithms, some seeds.

A recipe is checked as a whole before anything runs, and the checked recipe is saved with the run.
"""

import tomllib
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from idiolect import catalog
from idiolect.errors import UserMistake
from idiolect.network.delays import Network
from idiolect.options import as_written, checked, known, sentence
from idiolect.problems.clients import Shares

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
    """`[training]`: how a client descends. An algorithm may have its own values for any of these."""

    local_steps: Count = 10
    step_size: Positive = 0.01
    batch_size: Count = 32


class OwnTraining(_Table):
    """What one algorithm does otherwise."""

    local_steps: Count | None = None
    step_size: Positive | None = None
    batch_size: Count | None = None


class Evaluation(_Table):
    """`[evaluation]`: how often, after how many adaptation steps, on which part, on how many clients."""

    points: Count = 20
    steps: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0, 1]
    step_size: Positive = 0.01
    batch_size: Count = 32
    split: Literal["test", "validation"] = "test"
    at_most: Count | None = None
    headline: Literal["steps", "own"] = "steps"

    @field_validator("steps")
    @classmethod
    def _increasing(cls, steps: list[int]) -> list[int]:
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError("numbers of steps must increase")
        return steps


class AlgorithmTable(_Table):
    """`[[algorithms]]`: a name from the catalog or `objective+protocol`, with options for both and a label."""

    name: str
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_+-]*$", max_length=60)] | None = None
    objective: dict[str, Any] = {}
    protocol: dict[str, Any] = {}
    training: OwnTraining = OwnTraining()


class Recipe(_Table):
    """A whole experiment."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)] = "recipe"
    description: str = ""
    seeds: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)] = [0]
    horizon: Positive = 200.0
    timeline: str | None = None
    problem: ProblemTable = ProblemTable()
    network: Network = Network()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    algorithms: Annotated[list[AlgorithmTable], Field(min_length=1)]

    @model_validator(mode="after")
    def _labels_differ(self) -> "Recipe":
        labels = self.labels
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two algorithms are called '{twice[0]}'; give one a label of its own")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds {self.seeds} repeat themselves")
        return self

    @property
    def labels(self) -> list[str]:
        """What each algorithm is called in the results."""
        return [table.label or table.name for table in self.algorithms]


def builtin_recipes() -> dict[str, str]:
    """The recipes that ship with the package: name -> description."""
    folder = resources.files("idiolect") / "recipes"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): tomllib.loads(file.read_text("utf-8"))["description"] for file in files}


def load_recipe(source: str, settings: list[str] | None = None) -> Recipe:
    """A recipe from a TOML file or a built-in name, with `path.to.key=value` settings applied on top."""
    if source in builtin_recipes():
        text, stem = (resources.files("idiolect") / "recipes" / f"{source}.toml").read_text("utf-8"), source
    else:
        path = Path(source)
        if not path.is_file():
            known(builtin_recipes(), "recipe", source) if path.suffix != ".toml" else _no_file(path)
        text, stem = path.read_text("utf-8", errors="replace"), path.stem
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserMistake(f"recipe {source} is not TOML: {error}") from None
    tables.setdefault("name", stem)
    for setting in settings or []:
        _apply(tables, setting)
    return parse_recipe(tables)


def parse_recipe(tables: dict[str, Any]) -> Recipe:
    """Check a recipe's tables, the options of everything they name included."""
    try:
        recipe = Recipe.model_validate(tables)
    except ValidationError as error:
        raise UserMistake(sentence(error, model=Recipe)) from None
    algorithms = [_complete(table) for table in recipe.algorithms]
    return recipe.model_copy(update={"problem": _complete_problem(recipe), "algorithms": algorithms})


def _complete_problem(recipe: Recipe) -> ProblemTable:
    """The problem with every option written out, defaults included."""
    images, name = image_problem(recipe), recipe.problem.name
    if images is None:
        options = checked(catalog.SYNTHETIC, "problem", name, dict(recipe.problem.model_extra or {}))
        return ProblemTable(name=name, **as_written(options))
    parts = {}
    for field, registry in (("partition", catalog.PARTITIONS), ("model", catalog.MODELS)):
        choice = getattr(images, field)
        options = checked(registry, f"problem.{field}", choice["name"], _without_name(choice))
        parts[field] = _plain({"name": choice["name"], **as_written(options)})
    return ProblemTable(**{**_plain(images), **parts})


def _complete(table: AlgorithmTable) -> AlgorithmTable:
    """The table with every option of its objective and protocol written out, defaults included."""
    chosen = catalog.cell(table.name)
    objective = checked(catalog.OBJECTIVES, f"{table.name}: objective", chosen.objective, table.objective)
    protocol = checked(catalog.PROTOCOLS, f"{table.name}: protocol", chosen.protocol, table.protocol)
    return table.model_copy(update={"objective": as_written(objective), "protocol": as_written(protocol)})


def image_problem(recipe: Recipe) -> ImageProblem | None:
    """The checked options of an image problem; None for a synthetic one, whose options are checked too."""
    name, options = recipe.problem.name, dict(recipe.problem.model_extra or {})
    known([*catalog.IMAGES, *catalog.SYNTHETIC], "problem.name", name)
    if name in catalog.SYNTHETIC:
        checked(catalog.SYNTHETIC, "problem", name, options)
        return None
    try:
        table = ImageProblem.model_validate({"name": name, **options})
    except ValidationError as error:
        raise UserMistake(sentence(error, "problem", model=ImageProblem)) from None
    for field, registry, choice in (
        ("partition", catalog.PARTITIONS, table.partition),
        ("model", catalog.MODELS, table.model),
    ):
        if "name" not in choice:
            raise UserMistake(f"problem.{field}.name is missing; known are {', '.join(registry)}")
        checked(registry, f"problem.{field}", choice["name"], _without_name(choice))
    return table


def write_recipe(recipe: Recipe) -> str:
    """The checked recipe as TOML, which `load_recipe` reads back."""
    return tomli_w.dumps(_plain(recipe))


def _without_name(choice: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in choice.items() if key != "name"}


def _plain(value: Any) -> Any:
    """Tables, lists and values as TOML knows them; what is None is left out."""
    if isinstance(value, BaseModel):
        value = dict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items() if inner is not None}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _apply(tables: dict[str, Any], setting: str) -> None:
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


def _no_file(path: Path) -> None:
    raise UserMistake(f"recipe {path} does not exist; `idiolect list` names the recipes that are built in")
