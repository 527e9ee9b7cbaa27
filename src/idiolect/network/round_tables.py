"""Round tables, for runs without a server: who wakes in which round, and which messages come through.

Like a timeline it is made before any learning and knows nothing of it. An agent that wakes in a round sends to all its
out-neighbours; a message is listed here once for every time it arrives, and not at all if it is lost. It is taken in
when its receiver next wakes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.network.topologies import Topology

SMALLEST_WEIGHT = 1e-12  # below it x / y is noise


class Rounds(NamedTuple):
    """Who is awake, as rounds x agents; and the messages that arrive, one entry each, in the order of arrival."""

    graph: Topology
    awake: np.ndarray
    link: np.ndarray
    sent: np.ndarray
    arrives: np.ndarray  # the first round in which the receiver, if awake, can take it in

    @property
    def length(self) -> int:
        """The number of rounds."""
        return len(self.awake)


def rounds(
    graph: Topology,
    awake: Sequence[Sequence[bool]] | np.ndarray,
    messages: Sequence[tuple[int, int, int, int]] | np.ndarray,
) -> Rounds:
    """Make the table by hand: who is awake in each round, and messages as (sender, receiver, sent, arrives).

    Args:
        graph: Who can send to whom.
        awake: A row for each round, and a column for each agent.
        messages: Those that arrive, each as (sender, receiver, sent, arrives).

    Returns:
        The table, checked, with its messages in the order of arrival.

    Example:
        >>> from idiolect.network import rounds, topology
        >>> rounds(topology(2, [(0, 1), (1, 0)]), [[True, True], [False, True]], [(0, 1, 0, 1)]).length
        2
    """
    table = np.asarray(awake)
    if table.ndim != 2 or table.shape[1] != graph.agents:
        raise UserMistake(
            f"awake has shape {table.shape}, but must have a row for each round and {graph.agents} columns, "
            "one for each agent"
        )
    rows = np.asarray(messages, np.int64).reshape(-1, 4) if len(messages) else np.zeros((0, 4), np.int64)
    place = {pair: link for link, pair in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))}
    for sender, receiver, _, _ in rows.tolist():
        if (sender, receiver) not in place:
            raise UserMistake(f"a message goes from agent {sender} to agent {receiver}, but the graph has no such link")
    link = np.array([place[sender, receiver] for sender, receiver, _, _ in rows.tolist()], np.int64)
    return ordered(Rounds(graph, table.astype(bool), link, rows[:, 2], rows[:, 3]))


def ordered(table: Rounds) -> Rounds:
    """The table with its messages in the order of arrival, refused if it contradicts itself."""
    sent, arrives = table.sent, table.arrives
    outside = (sent < 0) | (sent >= table.length)
    if outside.any():
        raise UserMistake(f"a message is sent in round {sent[outside][0]}, but rounds go from 0 to {table.length - 1}")
    silent = ~table.awake[sent, table.graph.sources[table.link]]
    if silent.any():
        agent = table.graph.sources[table.link][silent][0]
        raise UserMistake(f"agent {agent} sends in round {sent[silent][0]}, but sleeps then")
    if table.graph.present is not None:
        gone = ~table.graph.present[sent % len(table.graph.present), table.link]
        if gone.any():
            which = table.link[gone][0]
            raise UserMistake(
                f"agent {table.graph.sources[which]} sends to agent {table.graph.targets[which]} in round "
                f"{sent[gone][0]}, but there is no such link then"
            )
    early = arrives < sent
    if early.any():
        raise UserMistake(f"a message sent in round {sent[early][0]} arrives in round {arrives[early][0]}, before that")
    order = np.lexsort((sent, table.link, arrives))
    columns = (column[order].astype(np.int32) for column in (table.link, sent, arrives))
    return Rounds(table.graph, table.awake, *columns)


def sends(graph: Topology, awake: np.ndarray) -> np.ndarray:
    """Over which links messages are sent in each round, as rounds x links: from those awake, over what is there."""
    sending = awake[:, graph.sources]
    return sending if graph.present is None else sending & graph.links_in(np.arange(len(awake)))


def taken_in(table: Rounds) -> np.ndarray:
    """For every message the round in which its receiver takes it in; the number of rounds if that never happens."""
    # next_awake[t, i]: the first round from t on in which agent i is awake.
    stamps = np.where(table.awake, np.arange(table.length)[:, None], table.length)
    next_awake = np.minimum.accumulate(stamps[::-1])[::-1]
    next_awake = np.vstack([next_awake, np.full((1, table.graph.agents), table.length)])
    return next_awake[np.minimum(table.arrives, table.length), table.graph.targets[table.link]]


class Arrivals(NamedTuple):
    """The messages that are taken in, in the order of rounds, links and sending, one entry each."""

    round: np.ndarray
    slot: np.ndarray  # how many older ones are taken in over the same link in the same round
    link: np.ndarray
    age: np.ndarray


def arrivals(table: Rounds, newest_only: bool) -> Arrivals:
    """What is taken in when; with `newest_only` at most one message over a link in a round."""
    # All of a message as one number: plain numbers are sorted much faster than rows. There can be many millions of
    # them, and fresh memory costs more than arithmetic, so what can be overwritten is.
    low, high = table.length.bit_length(), table.graph.links.bit_length()
    message = taken_in(table).astype(np.int64)
    for bits, column in ((high, table.link), (low, table.sent)):
        message <<= bits
        message |= column
    message.sort()
    message = message[: np.searchsorted(message, table.length << high + low)]  # the others are never taken in
    place = message >> low
    if newest_only:
        message = message[np.append(place[1:] != place[:-1], True)[: len(place)]]
    slot = np.zeros(len(message), np.int32) if newest_only else _count_repeats(place)
    sent = (message & (1 << low) - 1).astype(np.int32)
    message >>= low
    link = (message & (1 << high) - 1).astype(np.int32)
    message >>= high
    now = message.astype(np.int32)
    return Arrivals(now, slot, link, now - sent)


def _count_repeats(numbers: np.ndarray) -> np.ndarray:
    """How many of the same stand before each, in numbers of which the same stand together."""
    places = np.arange(len(numbers), dtype=np.int32)
    first = np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]
    return places - np.maximum.accumulate(np.where(first, places, 0))


def oldest(table: Rounds, when: np.ndarray) -> int:
    """The greatest age at which a message is taken in (`when`: see `taken_in`), or still under way at the end."""
    return int((np.minimum(when, table.length - 1) - table.sent).max(initial=0))


def delivered_share(table: Rounds) -> np.ndarray:
    """For every link the share of the messages sent over it that ever arrive."""
    sent = sends(table.graph, table.awake).sum(0)
    pairs = np.unique(np.stack([table.link, table.sent]), axis=1)  # a message that comes twice arrived once
    arrived = np.bincount(pairs[0], minlength=table.graph.links)
    return arrived / np.maximum(sent, 1)


def accumulated(theta: np.ndarray, awake: np.ndarray, catch_up: int | None = None) -> np.ndarray:
    """The step size of each agent in each round: those of the rounds it slept through add up.

    PARS-Push, Alg. 1, l. 4: eta_i(t) is the sum of theta(r) for r = kappa_i + 1 … t; 0 while asleep. With `catch_up`
    at most so many rounds add up, the last ones.
    """
    stamps = np.where(awake, np.arange(len(awake))[:, None] + 1, 0)
    before = np.vstack([np.zeros((1, awake.shape[1]), int), np.maximum.accumulate(stamps)[:-1]])  # kappa_i + 1
    if catch_up is not None:
        before = np.maximum(before, np.arange(len(awake))[:, None] + 1 - catch_up)
    total = np.append(0.0, np.cumsum(theta))
    return np.where(awake, total[1:, None] - total[before], 0.0)


def check_weights(table: Rounds) -> None:
    """Refuse rounds in which an agent's weight y would vanish under running sums; learning has no part in that.

    PARS-Push, Alg. 1, l. 13-14 and 23, for y alone: an agent that wakes and sends but does not hear gives all away.
    """
    graph, came = table.graph, arrivals(table, newest_only=True)
    begins = np.searchsorted(came.round, np.arange(table.length + 1))
    y, sent = np.ones(graph.agents), np.zeros((table.length + 1, graph.agents))  # y, phi after each round
    heard = np.zeros(graph.links)  # rho
    for t, awake in enumerate(table.awake):
        y = np.where(awake, y / (graph.out_degrees + 1), y)
        sent[t + 1] = sent[t] + np.where(awake, y, 0)
        these = slice(begins[t], begins[t + 1])
        link = came.link[these]
        news = sent[t + 1 - came.age[these], graph.sources[link]]
        np.add.at(y, graph.targets[link], np.maximum(news - heard[link], 0))
        heard[link] = np.maximum(news, heard[link])
        if y.min() < SMALLEST_WEIGHT:
            raise UserMistake(
                f"agent {y.argmin()}'s weight y falls to {y.min():.3g} in round {t} and would reach zero: it wakes and "
                "sends, but hears from nobody"
            )
