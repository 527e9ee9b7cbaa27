"""The table that a run without a server is folded over: who wakes in which round, and which messages come through.

Like a timeline it is made before any learning and knows nothing of it. An agent that wakes in a round sends to all its
out-neighbours; a message is listed here once for every time it arrives, and not at all if it is lost. It is taken in
when its receiver next wakes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake
from idiolect.network.topology import Topology

NOTHING = -1
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
    """Make the table by hand: who is awake in each round, and messages as (sender, receiver, sent, arrives)."""
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
    early = arrives < sent
    if early.any():
        raise UserMistake(f"a message sent in round {sent[early][0]} arrives in round {arrives[early][0]}, before that")
    order = np.lexsort((sent, table.link, arrives))
    columns = (column[order].astype(np.int32) for column in (table.link, sent, arrives))
    return Rounds(table.graph, table.awake, *columns)


def taken_in(table: Rounds) -> np.ndarray:
    """For every message the round in which its receiver takes it in; the number of rounds if that never happens."""
    # next_awake[t, i]: the first round from t on in which agent i is awake.
    stamps = np.where(table.awake, np.arange(table.length)[:, None], table.length)
    next_awake = np.minimum.accumulate(stamps[::-1])[::-1]
    next_awake = np.vstack([next_awake, np.full((1, table.graph.agents), table.length)])
    return next_awake[np.minimum(table.arrives, table.length), table.graph.targets[table.link]]


def ages(table: Rounds, newest_only: bool) -> np.ndarray:
    """How old the messages are that come over each link in each round, as rounds x slots x links; -1 for no message.

    There are as many slots as messages ever come over one link in one round; with `newest_only` there is one.
    """
    when, links = taken_in(table), max(table.graph.links, 1)
    kept = when < table.length
    # Round, link and sending round of a message as one number: sorting plain numbers is much faster than sorting rows.
    group = when[kept].astype(np.int64) * links + table.link[kept]
    group, sent = np.divmod(np.sort(group * table.length + table.sent[kept]), table.length)
    if newest_only:
        last = np.append(group[1:] != group[:-1], True)[: len(group)]
        group, sent = group[last], sent[last]
    first = np.append(True, group[1:] != group[:-1])[: len(group)]
    slot = np.arange(len(group)) - np.maximum.accumulate(np.where(first, np.arange(len(group)), 0))
    shape = (table.length, int(slot.max(initial=0)) + 1, table.graph.links)
    result = np.full(shape, NOTHING, _whole_numbers_up_to(table.length))
    result[group // links, slot, group % links] = group // links - sent
    return result


def oldest(table: Rounds) -> int:
    """The greatest age at which a message is taken in, or still under way at the end."""
    return int((np.minimum(taken_in(table), table.length - 1) - table.sent).max(initial=0))


def delivered_share(table: Rounds) -> np.ndarray:
    """For every link the share of the messages sent over it that ever arrive."""
    sends = table.awake.sum(0)[table.graph.sources]
    pairs = np.unique(np.stack([table.link, table.sent]), axis=1)  # a message that comes twice arrived once
    arrived = np.bincount(pairs[0], minlength=table.graph.links)
    return arrived / np.maximum(sends, 1)


def accumulated(theta: np.ndarray, awake: np.ndarray) -> np.ndarray:
    """The step size of each agent in each round: those of the rounds it slept through add up.

    PARS-Push, Alg. 1, l. 4: eta_i(t) is the sum of theta(r) for r = kappa_i + 1 … t; 0 while asleep.
    """
    stamps = np.where(awake, np.arange(len(awake))[:, None] + 1, 0)
    before = np.vstack([np.zeros((1, awake.shape[1]), int), np.maximum.accumulate(stamps)[:-1]])  # kappa_i + 1
    total = np.append(0.0, np.cumsum(theta))
    return np.where(awake, total[1:, None] - total[before], 0.0)


def check_weights(table: Rounds) -> None:
    """Refuse rounds in which an agent's weight y would vanish under running sums; learning has no part in that.

    PARS-Push, Alg. 1, l. 13-14 and 23, for y alone: an agent that wakes and sends but does not hear gives all away.
    """
    graph, when = table.graph, ages(table, newest_only=True)[:, 0]
    y, sent = np.ones(graph.agents), np.zeros((table.length + 1, graph.agents))  # y, phi after each round
    heard = np.zeros(graph.links)  # rho
    for t, awake in enumerate(table.awake):
        y = np.where(awake, y / (graph.out_degrees + 1), y)
        sent[t + 1] = sent[t] + np.where(awake, y, 0)
        link = np.flatnonzero(when[t] >= 0)
        news = sent[t + 1 - when[t, link], graph.sources[link]]
        np.add.at(y, graph.targets[link], np.maximum(news - heard[link], 0))
        heard[link] = np.maximum(news, heard[link])
        if y.min() < SMALLEST_WEIGHT:
            raise UserMistake(
                f"agent {y.argmin()}'s weight y falls to {y.min():.3g} in round {t} and would reach zero: it wakes and "
                "sends, but hears from nobody"
            )


def _whole_numbers_up_to(bound: int) -> type[np.signedinteger]:
    return np.int16 if bound < np.iinfo(np.int16).max else np.int32
