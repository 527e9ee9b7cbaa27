"""Compare finished runs, algorithm by algorithm, on the seeds and clients that both have.

One run: its algorithms against the first of them, or against the one that is named. Several runs: the algorithms of
the others against those of the first run with the same label; or all of them against one of the first run.

What would not be paired is refused: other data, another metric, another adaptation, another part to be scored on. What
leaves the pairs as they are but explains a difference (another horizon, network, training or model) is noted.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from idiolect.comparison.contrasts import Contrast, Scores, contrast, holm
from idiolect.errors import UserMistake
from idiolect.evaluation.neighbours import NEIGHBOURS
from idiolect.evaluation.scores import OWN
from idiolect.experiments.evaluation_plan import column_in_words, headline_column
from idiolect.experiments.records import CellRecord
from idiolect.experiments.value import Experiment
from idiolect.options import as_written
from idiolect.results.folder import saved_tables
from idiolect.results.run import Run, open_run

Which: TypeAlias = Literal["global", "personalized", "own"]

# Of a problem: they leave its data alone. A problem of one's own is compared by its clients, whose arrays are known.
_MODEL_OPTIONS = {"model", "hidden", "loss", "balance", "scale", "init", "oracle", "calibrate"}
_CONDITIONS = ("horizon", "rounds", "timeline", "network", "topology", "links", "training", "screening", "attack")
_LONGEST = 80  # of a value in a sentence


class Finished(NamedTuple):
    """What has come to its end of a run."""

    run: Run
    cells: dict[str, dict[int, CellRecord]]  # label -> seed; those that ended before their time are left out
    notes: list[str]

    @property
    def name(self) -> str:
        """What the run is called: its folder, as it was given."""
        return str(self.run.path)

    @property
    def metric(self) -> tuple[str, bool]:
        """The headline metric, and whether more of it is better."""
        cell = next(iter(next(iter(self.cells.values())).values()))
        return cell.metric, cell.higher_is_better


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


def compare_runs(
    paths: str | Path | Sequence[str | Path], which: Which = "personalized", against: str | None = None
) -> Comparison:
    """Compare one run's algorithms, or several runs, on the seeds and clients that both sides have.

    Args:
        paths: A run folder or several. Of one run, the algorithms are compared; of several, the others with the first.
        which: Whose scores: the model as received, personalized, or adapted as its objective prescribes.
        against: The label of the first run to compare with, in place of its first algorithm or the same label.

    Returns:
        A row for every difference, its tests corrected after Holm, and notes on what else is different.

    Example:
        >>> import idiolect
        >>> problem = idiolect.Choice("quadratics", {"clients": 4})
        >>> mine = idiolect.Experiment(problem, ["fedavg", "fedasync"], seeds=[0, 1], horizon=40.0)
        >>> run = idiolect.run(mine, out=tmp / "compared")
        >>> idiolect.compare_runs([run.path]).rows[0].second[1]
        'fedasync'
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    if not paths:
        raise UserMistake("paths is empty, but must name at least one run folder")
    found = [finished(open_run(path)) for path in paths]
    resolved = [Path(path).resolve() for path in paths]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise UserMistake(
                f"{paths[place]} is named twice; name two different runs, or one to compare its algorithms"
            )
    first, notes = found[0], [note for one in found for note in one.notes]
    for other in found[1:]:
        notes += _differences(first, other, which)
    pairs = _pairs_within(first, against) if len(found) == 1 else _pairs_between(first, found[1:], against)
    contrasts = [((a.name, x), (b.name, y), _contrast(a, x, b, y, which, notes)) for a, x, b, y in pairs]
    over_seeds = holm([each.p for *_, each in contrasts])
    over_clients = holm([each.over_clients.p for *_, each in contrasts])
    rows = [Compared(*each, p, q) for each, p, q in zip(contrasts, over_seeds, over_clients, strict=True)]
    return Comparison(*first.metric, which, _in_words(first.run.experiment, which), rows, notes)


def finished(run: Run) -> Finished:
    """What is finished of a run; a sentence if nothing is."""
    cells: dict[str, dict[int, CellRecord]] = {}
    notes = [f"{run.path}: {cell.label}, seed {cell.seed}, has no score and is left out." for cell in run.unscored]
    for cell in run.cells:
        if cell.ended:
            notes.append(f"{run.path}: {cell.label}, seed {cell.seed}, ended before its time and is left out.")
        else:
            cells.setdefault(cell.label, {})[cell.seed] = cell
    if not cells:
        raise UserMistake(
            f"{run.path} has nothing to compare: no algorithm of this run has come to its end on any seed"
        )
    if run.missing:
        notes.append(
            f"{run.path} is not finished: {run.missing} of {len(run.cells) + run.missing} cells are missing; "
            "what is there is compared."
        )
    return Finished(run, cells, notes)


Pair: TypeAlias = tuple[Finished, str, Finished, str]


def _pairs_within(run: Finished, against: str | None) -> list[Pair]:
    labels = list(run.cells)
    base = labels[0] if against is None else _known(run, against)
    if len(labels) == 1:
        raise UserMistake(f"{run.name} has only one finished algorithm, {base}; name another run to compare it with")
    return [(run, base, run, label) for label in labels if label != base]


def _pairs_between(first: Finished, others: Sequence[Finished], against: str | None) -> list[Pair]:
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


def _known(run: Finished, label: str) -> str:
    if label not in run.cells:
        raise UserMistake(f"--against is '{label}', but {run.name} has finished {', '.join(run.cells)}")
    return label


def _contrast(first: Finished, x: str, second: Finished, y: str, which: Which, notes: list[str]) -> Contrast:
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
    scores = _scores(first.run, left, which), _scores(second.run, right, which)
    return contrast(*scores, higher_is_better=first.metric[1])


def _check_clients(left: CellRecord, right: CellRecord, names: tuple[str, str]) -> None:
    """Refuse clients that have nothing but their number in common."""
    mine, theirs = ({c.client: (c.samples, c.group) for c in cell.clients} for cell in (left, right))
    common = set(mine) & set(theirs)
    if not common:
        raise UserMistake(f"{names[0]} and {names[1]} have scored no client in common on seed {left.seed}")
    for client in sorted(common):
        if mine[client] != theirs[client]:
            raise UserMistake(
                f"client {client} of seed {left.seed} is scored on {mine[client][0]} samples in {names[0]} "
                f"and on {theirs[client][0]} in {names[1]}: these are not the same clients"
            )


def _scores(run: Run, cells: dict[int, CellRecord], which: Which) -> Scores:
    column = _column(run.experiment, which)
    last = run.experiment.evaluation.last
    return {
        seed: {client: score for client, score in cell.scores_over(last, column).items() if client in mine}
        for seed, cell in cells.items()
        for mine in [{client.client for client in cell.participating}]
    }


def _column(experiment: Experiment, which: Which) -> str:
    if which == "own":
        return OWN
    return headline_column(experiment) if which == "personalized" else str(experiment.evaluation.steps[0])


def _differences(first: Finished, other: Finished, which: Which) -> list[str]:
    """Refuse what cannot be paired; say what else is different."""
    if first.metric != other.metric:
        raise UserMistake(f"{first.name} has the metric {first.metric[0]} and {other.name} {other.metric[0]}")
    tables = saved_tables(first.run.path), saved_tables(other.run.path)
    notes = _problem_notes(first, other, tables[0]["problem"], tables[1]["problem"])
    mine, theirs = first.run.experiment.evaluation, other.run.experiment.evaluation
    if mine.split != theirs.split:
        raise UserMistake(
            f"evaluation.split is {mine.split} in {first.name} and {theirs.split} in {other.name}: scores on different "
            "samples cannot be paired"
        )
    words = _in_words(first.run.experiment, which), _in_words(other.run.experiment, which)
    if words[0] != words[1]:
        raise UserMistake(
            f"the {which} score of {first.name} is of {words[0]}, that of {other.name} of {words[1]}: another --split "
            "may be the same in both"
        )
    if mine.at_most != theirs.at_most:
        notes.append(f"{first.name} and {other.name} have scored different choices of clients; those in both count.")
    if first.run.clock != other.run.clock:
        notes.append(f"{first.name} has a {first.run.clock} clock and {other.name} a {other.run.clock} one.")
    changed = [name for name in _CONDITIONS if tables[0].get(name) != tables[1].get(name)]
    if changed:
        notes.append(f"{first.name} and {other.name} differ in {', '.join(changed)}, which may explain a difference.")
    return notes


def _problem_notes(first: Finished, other: Finished, mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What is different of two problems, as their run folders describe them."""
    told = {
        key: f"problem.{key} is {_shown(mine.get(key))} in {first.name} and {_shown(theirs.get(key))} in {other.name}"
        for key in sorted({*mine, *theirs})
        if mine.get(key) != theirs.get(key)
    }
    for key, difference in told.items():
        if key not in _MODEL_OPTIONS:
            raise UserMistake(f"{difference}: on different problems no client of one is a client of the other")
    return [f"{difference}: the same clients, other models." for difference in told.values()]


def _shown(value: Any) -> str:
    """A value as text; what was made in Python is described at length, which no sentence has room for."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _in_words(experiment: Experiment, which: Which) -> str:
    """The model whose scores are compared, with everything that decides it."""
    column, evaluation = _column(experiment, which), experiment.evaluation
    if column == "0":
        return "the model as received"
    if column == NEIGHBOURS and evaluation.neighbours is not None:
        told = ", ".join(f"{key} = {value}" for key, value in as_written(evaluation.neighbours._asdict()).items())
        return f"the model after {column_in_words(evaluation, column)}, {told}"
    return f"the model after {column_in_words(evaluation, column)} (batches of {evaluation.batch_size})"


def _seeds(seeds: list[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
