"""Compare finished runs, algorithm by algorithm, on the seeds and clients that both have.

One run: its algorithms against the first of them, or against the one that is named. Several runs: the algorithms of
the others against those of the first run with the same label; or all of them against one of the first run.

What would not be paired is refused: other data, another metric, another adaptation, another part to be scored on. What
leaves the pairs as they are but explains a difference (another horizon, network, training or model) is noted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from idiolect.comparison.contrasts import Contrast, Scores, contrast, holm
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import OWN
from idiolect.experiments.building import headline_column, steps_in_words
from idiolect.experiments.schema import Recipe
from idiolect.results.folder import REAL_CLOCK, RunFolder, saved_recipe

Which = Literal["global", "personalized", "own"]

_MODEL_OPTIONS = {"model", "hidden", "loss", "balance", "scale"}  # of a problem: they leave its data alone
_CONDITIONS = ("horizon", "timeline", "network", "topology", "links", "training", "screening", "attack")


class Run(NamedTuple):
    """A run folder as far as it is finished."""

    name: str
    recipe: Recipe
    cells: dict[str, dict[int, dict[str, Any]]]  # label -> seed -> what was recorded; cells that ended early left out
    notes: list[str]
    clock: str

    @property
    def metric(self) -> tuple[str, bool]:
        """The headline metric, and whether more of it is better."""
        cell = next(iter(next(iter(self.cells.values())).values()))
        return cell["metric"], cell["higher_is_better"]


class Compared(NamedTuple):
    """One line of the table: `second` minus `first`, each a run and a label."""

    first: tuple[str, str]
    second: tuple[str, str]
    contrast: Contrast
    p: float  # over seeds, corrected after Holm
    p_clients: float  # Wilcoxon's, corrected after Holm


class Comparison(NamedTuple):
    """A whole table, and what to know of it."""

    metric: str
    higher_is_better: bool
    which: Which
    what: str  # which model was scored, in words
    rows: list[Compared]
    notes: list[str]


def compare(paths: Sequence[Path], which: Which = "personalized", against: str | None = None) -> Comparison:
    """The comparison of one run's algorithms, or of several runs."""
    runs = [read_run(path) for path in paths]
    resolved = [path.resolve() for path in paths]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise UserMistake(
                f"{paths[place]} is named twice; name two different runs, or one to compare its algorithms"
            )
    first, notes = runs[0], [note for run in runs for note in run.notes]
    for other in runs[1:]:
        notes += _differences(first, other, which)
    pairs = _pairs_within(first, against) if len(runs) == 1 else _pairs_between(first, runs[1:], against)
    found = [((a.name, x), (b.name, y), _contrast(a, x, b, y, which, notes)) for a, x, b, y in pairs]
    over_seeds = holm([each.p for *_, each in found])
    over_clients = holm([each.over_clients.p for *_, each in found])
    rows = [Compared(*each, p, q) for each, p, q in zip(found, over_seeds, over_clients, strict=True)]
    return Comparison(*first.metric, which, _in_words(first.recipe, which), rows, notes)


def read_run(path: Path) -> Run:
    """What is finished of a run."""
    recipe, notes = saved_recipe(path), []
    found = RunFolder(path, recipe).cells(recipe)
    cells: dict[str, dict[int, dict[str, Any]]] = {}
    for cell in found:
        if cell["ended"]:
            notes.append(f"{path}: {cell['label']}, seed {cell['seed']}, ended before its time and is left out.")
        else:
            cells.setdefault(cell["label"], {})[cell["seed"]] = cell
    if not cells:
        raise UserMistake(f"{path} has nothing to compare: no algorithm of this run has come to its end on any seed")
    missing = len(recipe.labels) * len(recipe.seeds) - len(found)
    if missing:
        notes.append(
            f"{path} is not finished: {missing} of {len(recipe.labels) * len(recipe.seeds)} cells are missing; "
            "what is there is compared."
        )
    clock = "real" if (path / REAL_CLOCK).is_file() else "virtual"
    return Run(str(path), recipe, cells, notes, clock)


Pair = tuple[Run, str, Run, str]


def _pairs_within(run: Run, against: str | None) -> list[Pair]:
    labels = list(run.cells)
    base = labels[0] if against is None else _known(run, against)
    if len(labels) == 1:
        raise UserMistake(f"{run.name} has only one finished algorithm, {base}; name another run to compare it with")
    return [(run, base, run, label) for label in labels if label != base]


def _pairs_between(first: Run, others: Sequence[Run], against: str | None) -> list[Pair]:
    pairs: list[Pair] = []
    for other in others:
        if against is not None:
            mine = [(_known(first, against), label) for label in other.cells]
        elif len(first.cells) == len(other.cells) == 1:
            mine = [(next(iter(first.cells)), next(iter(other.cells)))]
        else:
            mine = [(label, label) for label in first.cells if label in other.cells]
        if not mine:
            raise UserMistake(
                f"{first.name} ({', '.join(first.cells)}) and {other.name} ({', '.join(other.cells)}) have no label in "
                "common; say with --against LABEL which one of the first run the others are compared with"
            )
        pairs += [(first, x, other, y) for x, y in mine]
    return pairs


def _known(run: Run, label: str) -> str:
    if label not in run.cells:
        raise UserMistake(f"--against is '{label}', but {run.name} has finished {', '.join(run.cells)}")
    return label


def _contrast(first: Run, x: str, second: Run, y: str, which: Which, notes: list[str]) -> Contrast:
    left, right = first.cells[x], second.cells[y]
    names = (x, y) if first is second else (f"{first.name} {x}", f"{second.name} {y}")
    common = sorted(set(left) & set(right))
    if not common:
        raise UserMistake(
            f"{names[0]} has seeds {sorted(left)} and {names[1]} {sorted(right)}: there is no seed in common to pair"
        )
    apart = sorted(set(left) ^ set(right))
    if apart:
        notes.append(f"{names[0]} and {names[1]}: only one of them has {_seeds(apart)}; {_seeds(common)} compared.")
    for seed in common:
        _check_clients(left[seed], right[seed], names)
    scores = _scores(first, left, which), _scores(second, right, which)
    return contrast(*scores, higher_is_better=first.metric[1])


def _check_clients(left: dict[str, Any], right: dict[str, Any], names: tuple[str, str]) -> None:
    """Refuse clients that have nothing but their number in common."""
    sizes = [{c["client"]: (c["samples"], c["group"]) for c in cell["clients"]} for cell in (left, right)]
    common = set(sizes[0]) & set(sizes[1])
    if not common:
        raise UserMistake(f"{names[0]} and {names[1]} have scored no client in common on seed {left['seed']}")
    for client in sorted(common):
        if sizes[0][client] != sizes[1][client]:
            raise UserMistake(
                f"client {client} of seed {left['seed']} is scored on {sizes[0][client][0]} samples in {names[0]} "
                f"and on {sizes[1][client][0]} in {names[1]}: these are not the same clients"
            )


def _scores(run: Run, cells: dict[int, dict[str, Any]], which: Which) -> Scores:
    column = _column(run.recipe, which)
    return {
        seed: {c["client"]: c["scores"][column] for c in cell["clients"] if c["group"] == "participating"}
        for seed, cell in cells.items()
    }


def _column(recipe: Recipe, which: Which) -> str:
    if which == "own":
        return OWN
    return headline_column(recipe) if which == "personalized" else str(recipe.evaluation.steps[0])


def _differences(first: Run, other: Run, which: Which) -> list[str]:
    """Refuse what cannot be paired; say what else is different."""
    if first.metric != other.metric:
        raise UserMistake(f"{first.name} has the metric {first.metric[0]} and {other.name} {other.metric[0]}")
    notes = _problem_notes(first, other)
    mine, theirs = first.recipe.evaluation, other.recipe.evaluation
    if mine.split != theirs.split:
        raise UserMistake(
            f"evaluation.split is {mine.split} in {first.name} and {theirs.split} in {other.name}: scores on different "
            "samples cannot be paired"
        )
    words = _in_words(first.recipe, which), _in_words(other.recipe, which)
    if words[0] != words[1]:
        raise UserMistake(
            f"the {which} score of {first.name} is of {words[0]}, that of {other.name} of {words[1]}: another --split "
            "may be the same in both"
        )
    if mine.at_most != theirs.at_most:
        notes.append(f"{first.name} and {other.name} have scored different choices of clients; those in both count.")
    if first.clock != other.clock:
        notes.append(f"{first.name} has a {first.clock} clock and {other.name} a {other.clock} one.")
    changed = [name for name in _CONDITIONS if getattr(first.recipe, name) != getattr(other.recipe, name)]
    if changed:
        notes.append(f"{first.name} and {other.name} differ in {', '.join(changed)}, which may explain a difference.")
    return notes


def _problem_notes(first: Run, other: Run) -> list[str]:
    mine, theirs = (
        {"name": run.recipe.problem.name, **(run.recipe.problem.model_extra or {})} for run in (first, other)
    )
    changed = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
    for key in changed:
        if key not in _MODEL_OPTIONS:
            raise UserMistake(
                f"problem.{key} is {mine.get(key)} in {first.name} and {theirs.get(key)} in {other.name}: on different "
                "problems no client of one is a client of the other"
            )
    return [
        f"problem.{key} is {mine.get(key)} in {first.name} and {theirs.get(key)} in {other.name}: the same clients, "
        "other models."
        for key in changed
    ]


def _in_words(recipe: Recipe, which: Which) -> str:
    """The model whose scores are compared, with everything that decides it."""
    column, evaluation = _column(recipe, which), recipe.evaluation
    if column == OWN:
        return f"the model after the adaptation that each objective prescribes (batches of {evaluation.batch_size})"
    if column == "0":
        return "the model as received"
    steps = steps_in_words(int(column), evaluation.step_size)
    return f"the model after {steps} (batches of {evaluation.batch_size})"


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
