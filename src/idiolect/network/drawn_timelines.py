"""Timelines from a network model: with rounds, and without.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Sec. 2.3 and Fig. 1.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, count, islice, takewhile

import numpy as np

from idiolect.contracts import Schedule
from idiolect.errors import UserMistake
from idiolect.network.delays import Devices, Network
from idiolect.network.mapped_columns import LARGE, blocks_of, in_order_of_offers, joined
from idiolect.network.timeline_checks import TurnChecks
from idiolect.network.timelines import COLUMN_TYPES, NO_ROUND, Timeline

_TIMES = ("offered", "received", "computed", "arrived")


def draw_timeline(
    network: Network,
    participating: Sequence[int],
    schedule: Schedule,
    *,
    horizon: float,
    seed: int,
    large: int = LARGE,
) -> Timeline:
    """The turns of the participating clients that are over by `horizon`, in rounds or not.

    Args:
        network: How long things take, and how often work is lost.
        participating: The clients that take part in training.
        schedule: Whether there are rounds, and of how many clients.
        horizon: When the run ends, in virtual time.
        seed: Of the draws.
        large: A timeline of more turns lies in files without names, and need not fit into memory.

    Returns:
        The timeline, in the order of the offers.

    Example:
        >>> from idiolect.contracts import Schedule
        >>> from idiolect.network import Network, draw_timeline
        >>> table = draw_timeline(Network(), [0, 1, 2], Schedule(rounds=False), horizon=50.0, seed=0)
        >>> bool((table.arrived <= 50.0).all())
        True
    """
    if not horizon > 0:
        raise UserMistake(f"horizon is {horizon}, but the virtual time of a run must be positive")
    if not participating:
        raise UserMistake("participating is empty, but at least one client must take part in training")
    members = np.asarray(participating, COLUMN_TYPES[0])
    if schedule.rounds:
        parts = _in_time(_rounds(network, len(members), schedule, seed), horizon)
        table = joined((_named(part, members) for part in parts), large)
    else:
        devices = Devices(network, len(members), np.random.default_rng(seed))
        turns = (_named(_kept(part, horizon), members) for part in _free_running(devices, len(members), horizon))
        table = _in_order(turns, large)
    if table is None:
        raise UserMistake(f"horizon is {horizon}: too short for a single {'round' if schedule.rounds else 'turn'}")
    return _checked(table)


def draw_counted(
    network: Network,
    participating: Sequence[int],
    schedule: Schedule,
    *,
    rounds: int,
    seed: int,
    large: int = LARGE,
) -> Timeline:
    """The same rounds as by `draw_timeline`, so many of them, by a clock that counts them: a round takes 1.

    Args:
        network: How long things take within a round, and how often work is lost.
        participating: The clients that take part in training.
        schedule: Of how many clients a round is.
        rounds: How many there are.
        seed: Of the draws.
        large: A timeline of more turns lies in files without names, and need not fit into memory.

    Returns:
        The timeline, in the order of the offers.

    Example:
        >>> from idiolect.contracts import Schedule
        >>> from idiolect.network import Network, draw_counted
        >>> table = draw_counted(Network(), [0, 1, 2], Schedule(rounds=True), rounds=5, seed=0)
        >>> float(table.arrived.max()), table.turns
        (5.0, 15)
    """
    drawn = islice(_rounds(network, len(participating), schedule, seed), rounds)
    members = np.asarray(participating, COLUMN_TYPES[0])
    table = joined((_named(_of_length_one(part, number), members) for number, part in enumerate(drawn)), large)
    assert table is not None, "there is at least one round"
    return _checked(table)


def _of_length_one(part: Timeline, number: int) -> Timeline:
    begin, end = part.offered.min(), part.arrived.max()
    times = {name: number + (getattr(part, name) - begin) / (end - begin) for name in _TIMES}
    return part._replace(**times)


def _named(part: Timeline, members: np.ndarray) -> Timeline:
    """Turns with the clients' own numbers in place of their places among those that take part, in their types."""
    named = part._replace(client=members[part.client])
    return Timeline(*(np.asarray(column, kind) for column, kind in zip(named, COLUMN_TYPES, strict=True)))


def _kept(part: Timeline, horizon: float) -> Timeline:
    """The turns that are over in time."""
    in_time = part.arrived <= horizon
    return Timeline(*(column[in_time] for column in part))


def _checked(table: Timeline) -> Timeline:
    """What was drawn, unless a delay law of one's own gave times that cannot be."""
    checks = TurnChecks()
    for block in blocks_of(table):
        checks.look_at(block)
    return table


def _in_order(parts: Iterator[Timeline], large: int) -> Timeline | None:
    """Turns in the order of their offers: in memory, if they are few."""
    few, turns = list[Timeline](), 0
    for part in parts:
        few.append(part)
        turns += part.turns
        if turns > large:
            return joined(in_order_of_offers(chain(few, parts)), large)
    if not turns:
        return None
    table = Timeline(*map(np.concatenate, zip(*few, strict=True)))
    order = np.argsort(table.offered, kind="stable")
    return Timeline(*(column[order] for column in table))


def _free_running(devices: Devices, clients: int, horizon: float) -> Iterator[Timeline]:
    """Everyone takes turn after turn, with idle time between them, and waits for nobody."""
    everyone = np.arange(clients)
    now = devices.turns(everyone).idle  # so that clients do not all start at once
    while (now < horizon).any():
        part, idle = _one_turn_each(devices, everyone, now, NO_ROUND)
        yield part
        now = part.arrived + idle


def _rounds(network: Network, clients: int, schedule: Schedule, seed: int) -> Iterator[Timeline]:
    """Rounds of a random cohort; the next starts when the last upload, or the news that it was lost, has come."""
    rng, size = np.random.default_rng(seed), schedule.cohort(clients)
    devices, now = Devices(network, clients, rng), 0.0
    for number in count():
        cohort = np.sort(rng.choice(clients, size=size, replace=False))
        part, _ = _one_turn_each(devices, cohort, np.full(size, now), number)
        now = float(part.arrived.max())
        yield part


def _in_time(rounds: Iterator[Timeline], horizon: float) -> Iterator[Timeline]:
    """Those that are over in time; a round that cannot close by then is not begun."""
    return takewhile(lambda part: float(part.arrived.max()) <= horizon, rounds)


def _one_turn_each(
    devices: Devices, clients: np.ndarray, now: np.ndarray, round_number: int
) -> tuple[Timeline, np.ndarray]:
    turn = devices.turns(clients)
    received = now + turn.download
    computed = received + turn.compute
    arrived = computed + turn.upload
    if (arrived <= now).any():
        raise UserMistake("network.download, compute and upload have mean 0 and take no time; a turn must take some")
    rounds = np.full(len(clients), round_number)
    return Timeline(clients, now, received, computed, arrived, turn.delivered, rounds), turn.idle
