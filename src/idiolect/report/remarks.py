"""Remarks, in sentences, on what a table of scores would hide."""

from collections.abc import Mapping, Sequence

from idiolect.engines.serverless import LEAK
from idiolect.report.headline import plus_minus, seeds_of
from idiolect.results.summary import Summary

_NAMED = 5  # clients that a remark names before it counts the others


def meaning_lines(summary: Summary, columns: Sequence[str]) -> list[str]:
    """What the columns of the headline table are, and how settings were chosen."""
    what, lines = summary.what, []
    lines.append(f"Global: {what.received}. Personalized: {what.personalized}.")
    if "own" in columns:
        lines.append("Own: after the adaptation that each objective itself prescribes.")
    if "steps" in columns:
        lines.append(
            "Steps: versions of the shared model, by rounds, buffers or single updates; without a server, rounds."
        )
    if summary.references:
        lines.append("In brackets: what the problem knows to compare with, learned by none of the algorithms.")
    if "unseen" in columns:
        lines.append("Unseen: the same personalization for clients that took no part in training.")
        if what.unseen:
            lines.append(f"Unseen, where others keep or choose something: {what.unseen}.")
    if summary.began:
        lines.append(f"Start: {summary.began}.")
    if summary.chosen is not None:
        chosen = summary.chosen
        lines.append(
            f"Settings: every algorithm's own, chosen by {chosen.trials} trials each on {chosen.split} parts of seeds "
            f"{', '.join(map(str, chosen.seeds))}, which are not scored here.{' ' if chosen.note else ''}{chosen.note}"
        )
    return lines


def group_lines(summary: Summary) -> list[str]:
    """The scores of each named group of clients, and their gain over the first algorithm."""
    lines, seeds = [], seeds_of(summary)
    for name, group in summary.groups.items():
        if not group.algorithms:  # none of its clients was scored
            continue
        (first, start), *others = group.algorithms.items()
        lines.append(f"{name} ({len(group.clients)} clients), personalized: {first} {plus_minus(start, seeds)}")
        lines += [
            f"  {label} {plus_minus(entry, seeds)}, a gain of {plus_minus(entry.gain, seeds)}"
            for label, entry in others
        ]
    return lines


def size_lines(summary: Summary) -> list[str]:
    """Who gains most: clients with few samples against clients with many."""
    if summary.gains is None:
        return []
    seeds = seeds_of(summary)
    return [
        f"{label}, personalized, over {summary.gains.over}: {plus_minus(gain.few, seeds)} for the third of clients "
        f"with the fewest samples, {plus_minus(gain.many, seeds)} for the third with the most"
        for label, gain in summary.gains.algorithms.items()
    ]


def remarks(summary: Summary) -> list[str]:
    """What a table of scores would hide: runs that ended early, clients that were refused, and mass that leaked."""
    lines = [
        f"{label}, seed {seed}, has no score: {why}."
        for label, mine in summary.unscored.items()
        for seed, why in mine.items()
    ]
    for label, entry in summary.algorithms.items():
        lines += [f"{label}, seed {seed}, ended before its time: {why}." for seed, why in entry.ended.items()]
        lines += [f"{label}, seed {seed}: {refusals_in_words(mine)}." for seed, mine in entry.refusals.items()]
        lines += [f"{label}, seed {seed}: {links_in_words(mine)}." for seed, mine in entry.refused_messages.items()]
        leaked = 0.0 if entry.leaked_share is None else entry.leaked_share.mean
        if abs(leaked) > LEAK and not entry.ended:
            lines.append(f"{label} leaks: {leaked:.2%} of the mass is gone, and its models are not what they seem.")
    return lines


def refusals_in_words(clients: Mapping[int, dict[str, int]]) -> str:
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


def links_in_words(senders: Mapping[int, dict[int, int]]) -> str:
    """Whose messages were refused by whom, and how many: the first few links, the rest counted."""
    links = [(sender, receiver, count) for sender, mine in senders.items() for receiver, count in mine.items()]
    parts = [
        f"{count} message{'s' if count > 1 else ''} of client {sender} refused by client {receiver}"
        for sender, receiver, count in links[:_NAMED]
    ]
    others = len(links) - _NAMED
    return "; ".join([*parts, *([f"and {others} more link{'s' if others > 1 else ''}"] if others > 0 else [])])


def _updates(count: int) -> str:
    return f"{count} update{'s' if count > 1 else ''}"
