"""The crew on Ray for an algorithm without a server: its agents are dealt to actors, which play its rounds.

All calls of some rounds are made at once. A round's messages are what one actor's call returns and another's is given,
so Ray carries them from store to store, and no actor waits for this process. After some rounds, what all agents have
comes back here: so a checkpoint has it, in the simulator's format, and no actor's death can lose it. If one dies in
between, it is replaced, all are put back to where they were last seen, and play the same rounds again.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from idiolect.engines.ray.actor_pool import DEATHS, LOOK, ActorPool, failed_put, patience_after, said, too_many_deaths
from idiolect.engines.ray.agent_parts import cut, heard_from, parts_of, put_together, rows_kinds, settings_of
from idiolect.engines.ray.packed_arrays import packed, unpacked
from idiolect.engines.serverless.layout import Lane, Layout, State
from idiolect.engines.serverless.peer_program import PeerProgram
from idiolect.errors import UserMistake

ANSWER = 10.0  # seconds in which an actor that has nothing to do says that it lives
PLAYING = 20.0  # times as long as it takes to fetch what all agents have, before that is done again


class RayCrew:
    """The pool at work on one network."""

    def __init__(self, pool: ActorPool, program: PeerProgram, lanes: Sequence[Lane], layout: Layout, ring: int) -> None:
        self._pool, self._ray, self.seconds = pool, pool.ray, 0.0
        ends = np.asarray(layout.sources), np.asarray(layout.targets)
        self._parts = parts_of(*ends, len(lanes), len(layout.degrees), pool.count)
        self._hears = heard_from(self._parts)
        seeds = tuple(lane.seed for lane in lanes)
        settings = settings_of(layout, self._parts, program.algorithm.name, seeds, ring)
        try:
            self._settings = [self._ray.put(setting) for setting in settings]
        except self._ray.exceptions.RayError as reason:
            raise failed_put(reason) from None
        self._name = settings[0].name
        self._prepared: list[Any] = [None] * len(self._parts)  # the actors that have their part
        self._seen: State | None = None  # what they all have, if that is known

    def play(self, state: State, start: int, stop: int, moment: Callable[[], None]) -> State:
        """All agents after these rounds."""
        deaths = silences = 0
        while True:
            refs = self._ask(state, start, stop)
            patience = patience_after(silences, self._pool.patience)
            why = self._wait(refs, patience, moment)
            silences += bool(why)
            why = why or self._why_failed(refs)
            if not why:
                return self._fetch(state, refs[-len(self._parts) :])
            deaths, self._seen = deaths + 1, None
            if deaths > DEATHS:
                raise too_many_deaths(deaths, f"over rounds {start} to {stop - 1}", why)

    def _ask(self, state: State, start: int, stop: int) -> list[Any]:
        """Make all calls; the last ones return what agents have in the end."""
        numbers = range(len(self._parts))
        actors = [self._pool.actor(number) for number in numbers]
        begun = [actors[n].prepare.remote(self._settings[n]) for n in numbers if actors[n] is not self._prepared[n]]
        if begun:
            self._prepared, self._seen = actors, None
        leaves = jax.tree.leaves(state)
        known = [None] * len(leaves) if self._seen is None else jax.tree.leaves(self._seen)
        new = tuple(number for number, leaf in enumerate(leaves) if leaf is not known[number])
        kinds, arrays = rows_kinds(state), {number: np.asarray(leaves[number]) for number in new}
        for actor, part in zip(actors, self._parts, strict=True):
            sent = packed([[cut(arrays[number], kinds[number], part) for number in new]])
            begun.append(actor.put_back.remote(self._name, start, new, sent))
        told: list[Any] = []
        for t in range(start, stop):
            told = [actors[n].play.remote(self._name, t, *self._heard(told, n)) for n in numbers]
        return begun + [actors[n].show.remote(self._name, stop, *self._heard(told, n)) for n in numbers]

    def _heard(self, told: list[Any], number: int) -> list[Any]:
        return [told[other] for other in self._hears[number]] if told else []

    def _wait(self, refs: list[Any], patience: float, moment: Callable[[], None]) -> str:
        """Wait until all calls have come to an end, good or bad; or replace everybody if that takes too long."""
        began = time.monotonic()
        while refs:
            _, refs = self._ray.wait(refs, num_returns=len(refs), timeout=LOOK, fetch_local=False)
            if refs:
                moment()
                if time.monotonic() - began > patience:
                    self._replace(range(len(self._parts)))  # those who wait for a silent one are silent too
                    return f"no answer for {time.monotonic() - began:.0f} s"
        return ""

    def _why_failed(self, refs: list[Any]) -> str:
        """What went wrong, if anything did; whoever has died is replaced, and mistakes are raised."""
        errors, found = self._ray.exceptions, list[Exception]()
        for ref in refs:
            try:
                self._ray.get(ref)
            except errors.RayError as reason:
                found.append(reason)
        causes = [reason.cause for reason in found if isinstance(reason, errors.RayTaskError)]
        for cause in causes:
            if isinstance(cause, UserMistake):
                raise cause
        gone = [number for number in range(len(self._parts)) if self._is_gone(number)] if found else []
        self._replace(gone)
        if found and not gone and len(causes) == len(found):
            raise found[0]  # nobody has died: it is the work that fails
        return said(next((one for one in found if not isinstance(one, errors.RayTaskError)), found[0])) if found else ""

    def _is_gone(self, number: int) -> bool:
        """Has this actor died? One that others waited for in vain may be alive."""
        try:
            self._ray.get(self._prepared[number].process.remote(), timeout=ANSWER)
        except self._ray.exceptions.RayError:
            return True
        return False

    def _replace(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._pool.replace(number, self._prepared[number])

    def _fetch(self, before: State, refs: list[Any]) -> State:
        began = time.perf_counter()
        found = [unpacked(answer)[0] for answer in self._ray.get(refs)]
        self._seen = put_together(before, self._parts, found)
        self.seconds = PLAYING * (time.perf_counter() - began)
        return self._seen
