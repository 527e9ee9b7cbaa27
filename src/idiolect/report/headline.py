"""The headline table: mean and standard deviation over seeds, for every algorithm; as plain rows, to be shown."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from idiolect.results.statistics import MeanStd
from idiolect.results.summary import AlgorithmSummary, GroupScore, OverSeeds, Summary

Summaries: TypeAlias = Sequence[tuple[str, Summary]]  # what stands in front of the labels, and the summary of a run


class Rows(NamedTuple):
    """A table: names of its columns, and rows of text, the first entry of each a label."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def headline(summaries: Summaries) -> Rows:
    """The headline metric at the end, of all algorithms and references."""
    entries = [entry for _, summary in summaries for entry in summary.algorithms.values()]
    unseen = any("unseen" in entry.scores for entry in entries)
    packed = any(entry.bits.mean < 32 for entry in entries)
    adapted = any(entry.participating["own"] != entry.participating["personalized"] for entry in entries)
    optional = [*(["own"] if adapted else []), *(["unseen"] if unseen else []), *(["bits", "bytes"] if packed else [])]
    columns = ["algorithm", "global", "personalized", "worst decile", *optional, "updates", "steps", "seconds"]
    rows = []
    for front, summary in summaries:
        for label, entry in summary.algorithms.items():
            row = [front + label + _ended_early(entry), *_scores(entry.participating, len(entry.seeds))]
            if adapted:
                row.append(plus_minus(entry.participating["own"], len(entry.seeds)))
            if unseen:
                newcomers = entry.scores.get("unseen")
                row.append(plus_minus(newcomers["personalized"], len(entry.seeds)) if newcomers else "")
            if packed:
                row += [f"{entry.bits.mean:.4g}", f"{entry.bytes.mean:,.0f}"]
            counts = [f"{entry.updates.mean:.0f}", f"{entry.server_steps.mean:.0f}"]
            rows.append([*row, *counts, f"{entry.wall_clock_seconds.mean:.1f}"])
        lost = [label for label in summary.unscored if label not in summary.algorithms]
        rows += [[f"{front}{label} (diverged)", *["-"] * (len(columns) - 1)] for label in lost]
        rows += _references(front, summary, summary.metric, len(columns))
    return Rows(columns, rows)


def _ended_early(entry: AlgorithmSummary) -> str:
    """What a label says of runs that ended before their time, since their scores are not those of the end."""
    if not entry.ended:
        return ""
    return " (ended early)" if len(entry.ended) == len(entry.seeds) else f" ({len(entry.ended)} ended early)"


def other_metric(summaries: Summaries, metric: str) -> Rows:
    """The same models by another of the problem's metrics."""
    columns, rows = ["algorithm", "global", "personalized", "worst decile"], []
    for front, summary in summaries:
        for label, entry in summary.algorithms.items():
            if metric in entry.also:
                rows.append([front + label, *_scores(entry.also[metric], len(entry.seeds))])
        rows += _references(front, summary, metric, len(columns))
    return Rows(columns, rows)


def other_metrics(summaries: Summaries) -> list[str]:
    """The metrics of the runs beside the headline."""
    entries = [entry for _, summary in summaries for entry in summary.algorithms.values()]
    return list(dict.fromkeys(metric for entry in entries for metric in entry.also))


def number(value: float) -> str:
    """A score as text."""
    return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.2e}"


def plus_minus(value: MeanStd | OverSeeds | GroupScore, seeds: int) -> str:
    """A mean and its spread; of one seed there is none."""
    return f"{number(value.mean)} ± {number(value.std) if seeds > 1 else '-'}"


def seeds_of(summary: Summary) -> int:
    """How many seeds the algorithms of a run have, at most."""
    return max(len(entry.seeds) for entry in summary.algorithms.values())


def _scores(mine: dict[str, OverSeeds], seeds: int) -> list[str]:
    personal = mine["personalized"]
    return [plus_minus(one, seeds) for one in (mine["global"], personal, personal.worst_decile)]


def _references(front: str, summary: Summary, metric: str, width: int) -> list[list[str]]:
    """In brackets, since no algorithm learned them."""
    rows = []
    for name, scores in summary.references.items():
        if metric in scores:
            both = (scores[metric], scores[metric].worst_decile)
            row = [f"{front}({name})", "", *(plus_minus(one, seeds_of(summary)) for one in both)]
            rows.append([*row, *[""] * (width - len(row))])
    return rows
