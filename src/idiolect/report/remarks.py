"""What a table of scores would hide, in sentences."""

from typing import Any

from idiolect.engines.serverless import LEAK
from idiolect.report.headline import plus_minus

_NAMED = 5  # clients that a remark names before it counts the others


def group_lines(summary: dict[str, Any]) -> list[str]:
    """The scores of each named group of clients, and their gain over the recipe's first algorithm."""
    lines = []
    for name, group in summary.get("groups", {}).items():
        (first, _), *others = group["algorithms"].items()
        start = plus_minus(group["algorithms"][first])
        lines.append(f"{name} ({len(group['clients'])} clients), personalized: {first} {start}")
        lines += [f"  {label} {plus_minus(entry)}, a gain of {plus_minus(entry['gain'])}" for label, entry in others]
    return lines


def size_lines(summary: dict[str, Any]) -> list[str]:
    """Who gains most: clients with few samples against clients with many."""
    gains = summary.get("gains_by_size", {"algorithms": {}})
    return [
        f"{label}, personalized, over {gains['over']}: {plus_minus(gain['few'])} for the third of clients with the "
        f"fewest samples, {plus_minus(gain['many'])} for the third with the most"
        for label, gain in gains["algorithms"].items()
    ]


def remarks(summary: dict[str, Any]) -> list[str]:
    """What a table of scores would hide: runs that ended early, clients that were refused, and mass that leaked."""
    lines = []
    for label, entry in summary["algorithms"].items():
        lines += [
            f"{label}, seed {seed}, ended before its time: {why}." for seed, why in entry.get("ended", {}).items()
        ]
        lines += [
            f"{label}, seed {seed}: {refusals_in_words(clients)}."
            for seed, clients in entry.get("refusals", {}).items()
        ]
        leaked = entry.get("leaked_share", {"mean": 0.0})["mean"]
        if abs(leaked) > LEAK and "ended" not in entry:
            lines.append(f"{label} leaks: {leaked:.2%} of the mass is gone, and its models are not what they seem.")
    return lines


def refusals_in_words(clients: dict[str, dict[str, int]]) -> str:
    """Whose updates were refused or cut down, how many and why: the first few clients by number, the rest counted."""
    parts = []
    for client, counts in list(clients.items())[:_NAMED]:
        cut = {"cut down": counts["cut down"]} if "cut down" in counts else {}
        out = {why: count for why, count in counts.items() if why not in cut}
        said = [f"{_updates(sum(out.values()))} refused ({', '.join(out)})"] if out else []
        said += [f"{_updates(count)} cut down" for count in cut.values()]
        parts.append(f"client {client}: {', '.join(said)}")
    others = len(clients) - _NAMED
    return "; ".join([*parts, *([f"and {others} more client{'s' if others > 1 else ''}"] if others > 0 else [])])


def _updates(count: int) -> str:
    return f"{count} update{'s' if count > 1 else ''}"
