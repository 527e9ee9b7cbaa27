"""The Ray actor of algorithms without a server: it has some agents of a network, their rows, and plays their rounds.

A call is the second half of one round and the first half of the next, and returns what its agents say to others.
Whoever asks passes that on to the actors whose agents hear it, without looking at it.
"""

import os
from collections.abc import Sequence
from typing import Any

import jax

from idiolect.engines.ray.actor import ActorSettings, keep_compiled
from idiolect.engines.ray.agent_parts import Setting
from idiolect.engines.ray.agent_stage import Stage, build_stage, heard_by, put_back, said_in
from idiolect.engines.ray.packed_arrays import Packed, leaves_of, packed

Name = tuple[Any, ...]


class AgentActor:
    """Where the rounds of some agents are played. It never keeps more than the networks of one algorithm."""

    def __init__(self, settings: ActorSettings) -> None:
        keep_compiled(settings)
        self._make, self._stages = settings.make(), dict[Name, Stage]()

    def process(self) -> int:
        """The process that this is."""
        return os.getpid()

    def prepare(self, setting: Setting) -> None:
        """Build a part of a network."""
        kept = {name: stage for name, stage in self._stages.items() if name[0] == setting.label}
        self._stages = {**kept, setting.name: build_stage(self._make, setting)}

    def put_back(self, name: Name, round: int, numbers: Sequence[int], sent: Packed) -> None:
        """Go on from this round, with agents as they were sent."""
        self._stages[name] = put_back(self._stages[name], round, numbers, sent)

    def play(self, name: Name, round: int, *messages: Packed) -> Packed:
        """Hear the messages of the round before, if agents wait for any, and speak in this one."""
        stage = self._stages[name]
        if stage.woken is not None:
            stage = heard_by(stage, round - 1, messages)
        self._stages[name], said = said_in(stage, round)
        return said

    def show(self, name: Name, round: int, *messages: Packed) -> Packed:
        """Hear the messages of the last round, before this one; what agents then have."""
        self._stages[name] = heard_by(self._stages[name], round - 1, messages)
        return packed([leaves_of(jax.tree.leaves(self._stages[name].state))])
