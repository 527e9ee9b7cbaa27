"""The state of one agent, and what it tells of a waking."""

from typing import NamedTuple

from idiolect.contracts import PyTree
from idiolect.deploy.peers.letters import Letter, Stamp


class AgentState(NamedTuple):
    """All that an agent is. The mail is lost when it dies, and comes again; the rest belongs on its disk."""

    node: PyTree  # of the protocol
    own: PyTree  # what the objective keeps
    memories: dict[str, PyTree]  # of every in-neighbour
    descended: PyTree  # in all, for the ledger
    said: PyTree  # the content of its last letter
    stamp: Stamp  # and when that was said
    clock: int  # the newest round it has heard of or woken in
    woke: int  # kappa_i
    wakings: int
    known: dict[str, Stamp]  # the newest of each in-neighbour that was taken in
    mail: dict[str, tuple[Letter, ...]]


class Waking(NamedTuple):
    """What happened when an agent woke: for the log, and for whoever watches."""

    round: int
    heard: dict[str, list[int]]  # the rounds of the letters that were taken in
    refused: dict[str, str]  # and of those that were not, why
    loss: float
    slept: int  # rounds whose step sizes were left out by the cap
    spoke: bool = True  # an agent in debt only takes in


def say_again(state: AgentState, name: str) -> Letter | None:
    """The last letter once more, or nothing if the agent has never spoken."""
    return Letter(name, state.stamp, state.said) if state.stamp.round >= 0 else None
