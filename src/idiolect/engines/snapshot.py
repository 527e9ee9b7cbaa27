"""The snapshot of a run that an engine gives when it pauses."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from idiolect.contracts import Params, PyTree
from idiolect.errors import Diverged
from idiolect.network.timelines import Timeline


class Snapshot(NamedTuple):
    """A run at a moment of virtual time."""

    time: float
    updates: int  # uploads absorbed so far; without a server, wakings
    params: Params  # the server's model; without a server, the agents' average
    model: Callable[[int], Params]  # the model that a client would start to adapt from
    personal: Mapping[int, PyTree]  # what stays on the clients, for those that have had a turn
    own: Callable[[int], PyTree]  # what the objective keeps on a client, if anything
    reports: dict[str, float]  # means, since the last snapshot, of what clients told; and what the engine measured
    ended: str = ""  # why the run came to nothing before its time, if it did
    excused: str = ""  # what would explain that, or scores that are no numbers; if nothing does, it has diverged
    refusals: Mapping[int, dict[str, int]] = {}  # by client, how many of its updates were not absorbed as sent, and why
    refused_messages: Mapping[int, dict[int, int]] = {}  # without a server, by sender and by who would not have them
    withdraw: Callable[[], None] = lambda: None  # to be called if it cannot be scored: what was shown before then stays
    groups: PyTree = ()  # the models that clients choose from, where a server has several
    table: Timeline | None = None  # at the end, the timeline that was written down, if the clock was a real one

    def check(self) -> None:
        """Raise `Diverged` if the run came to nothing and nothing excuses that."""
        if self.ended and not self.excused:
            raise Diverged(self.ended)
