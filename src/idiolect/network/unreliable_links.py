"""Unreliable links: rounds with sleeping agents and lost, late and doubled messages, drawn from a law within bounds.

M. T. Toghani, S. Lee, C. A. Uribe. PARS-Push. 2022, Assumption 1, after Spiridonoff et al. 2020: every agent wakes at
least once in Gamma_w rounds, a message is at most Gamma_d rounds under way, and a link fails at most Gamma_f times in a
row. Inside those bounds chance rules; a bound may also be lifted, for stress.
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from idiolect.errors import UserMistake
from idiolect.network.round_tables import Rounds, ordered, sends
from idiolect.network.topologies import Topology

Unbounded = Literal["unbounded"]


class Links(NamedTuple):
    """What agents and links do to messages.

    Args:
        wake: The chance that an agent wakes in a round.
        gamma_w: It wakes for sure if it has slept this many rounds less one.
        loss: The chance that a message is lost.
        gamma_f: It comes through for sure if the link has just lost so many in a row.
        least_delay: The fewest rounds under way.
        gamma_d: The most rounds under way, all numbers up to it alike.
        extra_delay: Without that bound, the mean of the geometric number of rounds on top of the least.
        duplication: The chance that a message comes twice.

    Example:
        >>> from idiolect import Links
        >>> Links(loss=0.5, gamma_f="unbounded").gamma_d
        2
    """

    wake: Annotated[float, Gt(0), Le(1)] = 0.5
    gamma_w: Annotated[int, Ge(1)] | Unbounded = 2
    loss: Annotated[float, Ge(0), Lt(1)] = 0.3
    gamma_f: Annotated[int, Ge(0)] | Unbounded = 1
    least_delay: Annotated[int, Ge(0)] = 1
    gamma_d: Annotated[int, Ge(0)] | Unbounded = 2
    extra_delay: Annotated[float, Ge(0)] = 1.0
    duplication: Annotated[float, Ge(0), Lt(1)] = 0.0


def draw_rounds(links: Links, graph: Topology, count: int, seed: int) -> Rounds:
    """Draw who wakes and what arrives, for `count` rounds.

    Args:
        links: What agents and links do to messages.
        graph: Who can send to whom.
        count: The number of rounds.
        seed: Of the draws.

    Returns:
        The table of rounds.

    Example:
        >>> from idiolect.network import Links, draw_rounds, topology
        >>> table = draw_rounds(Links(wake=1.0, loss=0.0), topology(2, [(0, 1), (1, 0)]), 5, seed=0)
        >>> len(table.link)
        10
    """
    if links.gamma_d != "unbounded" and links.gamma_d < links.least_delay:
        raise UserMistake(f"links.gamma_d is {links.gamma_d}, below links.least_delay, which is {links.least_delay}")
    rng = np.random.default_rng(seed)
    awake = _draw_awake(links, graph.agents, count, rng)
    sent, link = _draw_successes(links, sends(graph, awake), rng)
    arrives = sent + _draw_delays(links, len(sent), rng)
    twice = rng.random(len(sent)) < links.duplication
    again = sent[twice] + _draw_delays(links, int(twice.sum()), rng)
    columns = ([link, link[twice]], [sent, sent[twice]], [arrives, again])
    return ordered(Rounds(graph, awake, *map(np.concatenate, columns)))


def _draw_awake(links: Links, agents: int, count: int, rng: np.random.Generator) -> np.ndarray:
    awake = rng.random((count, agents)) < links.wake
    if links.gamma_w != "unbounded":
        slept = np.zeros(agents, int)
        for row in awake:
            row |= slept >= links.gamma_w - 1
            slept = np.where(row, 0, slept + 1)
    return awake


def _draw_successes(links: Links, sending: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The rounds and the links of the messages that are not lost."""
    lost = rng.random(sending.shape) < links.loss
    if links.gamma_f != "unbounded":
        failures = np.zeros(sending.shape[1], int)
        for now, failed in zip(sending, lost, strict=True):
            failed &= failures < links.gamma_f
            failures = np.where(now, np.where(failed, failures + 1, 0), failures)
    sent, link = np.nonzero(sending & ~lost)
    return sent, link


def _draw_delays(links: Links, count: int, rng: np.random.Generator) -> np.ndarray:
    if links.gamma_d == "unbounded":
        return links.least_delay + rng.geometric(1 / (1 + links.extra_delay), count) - 1
    return rng.integers(links.least_delay, links.gamma_d + 1, count)
