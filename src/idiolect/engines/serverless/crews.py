"""The crew interface: whoever plays the rounds of a network in place of this process."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from idiolect.engines.serverless.layout import Lane, Layout, State
from idiolect.engines.serverless.peer_program import PeerProgram


class Crew(Protocol):
    """Some that share the agents of a network among them, and how many seconds they like to be left alone."""

    @property
    def seconds(self) -> float:
        """Of play between two looks at all agents."""
        ...

    def play(self, state: State, start: int, stop: int, moment: Callable[[], None]) -> State:
        """All agents after these rounds; `moment` is called now and then while they are played."""
        ...


CrewMaker: TypeAlias = Callable[[PeerProgram, Sequence[Lane], Layout, int], Crew]
# (program, lanes, their layout, rounds whose messages may still be needed)
