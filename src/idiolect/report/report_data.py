"""What a report is made of: the cells, references, timelines and traits of one run folder, or of several side by side.

Of several runs, labels carry the run's name in front. Every cell is told which of its scores are the model as received
(`before`) and the personalized one (`after`), since recipes differ in that.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.experiments.building import headline_column
from idiolect.experiments.schema import Recipe
from idiolect.network.round_tables import Rounds
from idiolect.network.timelines import Timeline
from idiolect.report.client_traits import Traits, traits_of
from idiolect.results.folder import REAL_CLOCK, RunFolder, saved_recipe
from idiolect.results.summary import summarize
from idiolect.results.traits import read_traits

Cells = list[dict[str, Any]]


class Run(NamedTuple):
    """One of the runs of a page."""

    name: str  # in front of its labels; empty if it is the only one
    path: Path
    recipe: Recipe
    summary: dict[str, Any]
    missing: int  # cells that are not finished
    real: bool  # whether its times are seconds

    def label(self, own: str) -> str:
        """What the page calls one of its algorithms, or references."""
        return f"{self.name}: {own}" if self.name else own


class ReportData(NamedTuple):
    """All that a page shows."""

    runs: list[Run]
    labels: list[str]
    cells: Cells
    references: list[dict[str, Any]]
    tables: dict[str, Timeline | Rounds]  # of each algorithm's first finished seed
    traits: dict[tuple[str, int], dict[int, Traits]]  # by algorithm and seed, for each participating client

    @property
    def metric(self) -> str:
        """The headline metric."""
        return str(self.cells[0]["metric"])

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return bool(self.cells[0]["higher_is_better"])

    @property
    def time(self) -> str:
        """What the axis of time is called."""
        clocks = dict.fromkeys("seconds" if run.real else "virtual time" for run in self.runs)
        return ", or ".join(clocks)

    @property
    def horizon(self) -> float:
        """Until when the longest run goes."""
        return max(run.recipe.horizon for run in self.runs)

    @property
    def seeds(self) -> str:
        """How many seeds there are, in words."""
        count = len({cell["seed"] for cell in self.cells})
        return f"{count} seed{'s' if count > 1 else ''}"

    def of(self, label: str, *, ended: bool = True) -> Cells:
        """The cells of an algorithm, with or without those that ended before their time."""
        return [cell for cell in self.cells if cell["label"] == label and (ended or not cell["ended"])]


def gather(paths: Sequence[Path]) -> ReportData:
    """Read the run folders; a sentence if one of them is none, has nothing to show, or cannot be compared."""
    names = _names(paths)
    evidence = ReportData([], [], [], [], {}, {})
    for path, name in zip(paths, names, strict=True):
        _add(evidence, path, name)
    metrics = {cell["metric"]: cell["label"] for cell in evidence.cells}
    if len(metrics) > 1:
        told = " and ".join(f"{metric} ({label})" for metric, label in metrics.items())
        raise UserMistake(f"the runs have different metrics, {told}, and cannot share a page; report them one by one")
    return evidence


def _add(evidence: ReportData, path: Path, name: str) -> None:
    recipe = saved_recipe(path)
    folder = RunFolder(path, recipe)
    cells, references = folder.cells(recipe), folder.references(recipe)
    if not cells:
        raise UserMistake(f"{path} has no finished cell to report; go on with: idiolect resume {path}")
    missing = len(recipe.labels) * len(recipe.seeds) - len(cells)
    real = (path / REAL_CLOCK).is_file()
    run = Run(name, path, recipe, _summary(path, recipe, cells, references), missing, real)
    columns = {"before": str(recipe.evaluation.steps[0]), "after": headline_column(recipe)}
    evidence.runs.append(run)
    evidence.labels.extend(run.label(label) for label in recipe.labels)
    evidence.references.extend({**record, "name": run.label(record["name"])} for record in references)
    known = {seed: read_traits(path, seed) for seed in recipe.seeds}
    for cell in cells:
        label, seed = run.label(cell["label"]), cell["seed"]
        table = folder.timeline(cell["label"], seed)
        algorithm = recipe.algorithms[recipe.labels.index(cell["label"])].name
        evidence.tables.setdefault(label, table)
        evidence.traits[label, seed] = traits_of(cell, table, known[seed], algorithm)
        evidence.cells.append({**cell, **columns, "label": label})


def _summary(path: Path, recipe: Recipe, cells: Cells, references: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of what is finished by now, with what only the run itself knew: its versions and its clock."""
    written = path / "summary.json"
    known: dict[str, Any] = json.loads(written.read_text("utf-8")) if written.is_file() else {"versions": {}}
    return {**summarize(recipe, cells, references), **{k: known[k] for k in ("versions", "clock") if k in known}}


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart; nothing if there is only one."""
    if len(paths) == 1:
        return [""]
    places = [path.resolve() for path in paths]
    if len(set(places)) < len(places):
        raise UserMistake("RUN names the same run folder twice; name each once")
    for length in range(1, max(len(place.parts) for place in places) + 1):
        names = ["/".join(place.parts[-length:]) for place in places]
        if len(set(names)) == len(names):
            break
    return names
