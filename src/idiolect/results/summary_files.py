"""A summary as the plain values of `summary.json`, and what of it cannot be made again from a run's cells."""

import json
from pathlib import Path
from typing import Any

from idiolect.experiments.serialization import write_links
from idiolect.results.statistics import MeanStd
from idiolect.results.summary import AlgorithmSummary, GroupSummary, OverSeeds, Summary

SUMMARY = "summary.json"
_NUMBERS = ("bits", "bytes", "updates", "server_steps", "wall_clock_seconds")


def write_summary(summary: Summary) -> dict[str, Any]:
    """The contents of `summary.json`; what does not apply is left out."""
    what = summary.what
    return {
        "recipe": summary.recipe,
        "metric": summary.metric,
        "higher_is_better": summary.higher_is_better,
        "what": {
            "global": what.received,
            "personalized": what.personalized,
            "scored_on": what.scored_on,
            "spread": what.spread,
            **_unless_empty("unseen", what.unseen),
        },
        "virtual_time": summary.virtual_time,
        **_unless_empty("rounds", summary.rounds),
        "algorithms": {label: _algorithm(entry) for label, entry in summary.algorithms.items()},
        **_unless_empty("groups", {name: _group(group) for name, group in summary.groups.items()}),
        **_unless_empty("gains_by_size", _gains(summary)),
        **_unless_empty("references", {name: _scores(mine) for name, mine in summary.references.items()}),
        "versions": summary.versions,
        "clock": summary.clock,
        "advice": summary.advice,
        **_unless_empty("began", summary.began),
        **_unless_empty("unscored", {label: _by_seed(mine) for label, mine in summary.unscored.items()}),
        **_unless_empty("chosen", None if summary.chosen is None else dict(summary.chosen)),
    }


def known_of_run(path: Path) -> dict[str, Any]:
    """The versions and the advice that only the run itself knew; nothing if its summary is missing or damaged."""
    try:
        record = json.loads((path / SUMMARY).read_text("utf-8"))
        versions = {str(name): str(number) for name, number in record["versions"].items()}
        return {"versions": versions, "advice": [str(line) for line in record["advice"]]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"versions": {}, "advice": []}


def _algorithm(entry: AlgorithmSummary) -> dict[str, Any]:
    return {
        "seeds": entry.seeds,
        **{group: _scores(scores) for group, scores in entry.scores.items()},
        **_unless_empty("also", {metric: _scores(scores) for metric, scores in entry.also.items()}),
        **{name: getattr(entry, name)._asdict() for name in _NUMBERS},
        **_unless_empty("at_end", {name: value._asdict() for name, value in entry.at_end.items()}),
        **entry.averages,
        **{name: value._asdict() for name, value in entry.at_the_end.items()},
        **({} if entry.leaked_share is None else {"leaked_share": entry.leaked_share._asdict()}),
        **_unless_empty(
            "refusals",
            {str(seed): {str(c): why for c, why in mine.items()} for seed, mine in entry.refusals.items()},
        ),
        **_unless_empty(
            "refused_messages", {str(seed): write_links(mine) for seed, mine in entry.refused_messages.items()}
        ),
        **_unless_empty("ended", _by_seed(entry.ended)),
    }


def _by_seed(sentences: dict[int, str]) -> dict[str, str]:
    return {str(seed): why for seed, why in sentences.items()}


def _scores(scores: dict[str, OverSeeds]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in scores.items()}


def _group(group: GroupSummary) -> dict[str, Any]:
    return {"clients": group.clients, "algorithms": {label: _plain(one) for label, one in group.algorithms.items()}}


def _gains(summary: Summary) -> dict[str, Any]:
    if summary.gains is None:
        return {}
    return {
        "over": summary.gains.over,
        "algorithms": {label: _plain(gain) for label, gain in summary.gains.algorithms.items()},
    }


def _plain(record: Any) -> dict[str, Any]:
    """A record of numbers, and of means with their spreads, as JSON has it."""
    return {name: value._asdict() if isinstance(value, MeanStd) else value for name, value in record._asdict().items()}


def _unless_empty(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}
