"""A pool of stateful environments behind a pure function: where does this history lead?

A gymnasium environment remembers where it is; a compiled function must not depend on what was asked before. So the
question always has the whole history: the task, the seed of the episode and all actions so far. The answer is found by
stepping a world that has just arrived one action earlier, if there is one, and else by playing the history again. Which
of the two happened, in which order histories are asked for, how often and from how many threads cannot be seen in the
answer, as long as a world is deterministic once it is seeded. The first way costs one step, and is the usual one.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from gymnasium import Env

Place: TypeAlias = tuple[bytes, int, bytes]  # a task, the seed of an episode, and the actions that led here
_AT_REST = -1  # instead of a seed: nobody will ask how this episode goes on


class Arrival(NamedTuple):
    """What the last action of a history led to."""

    seen: Any
    reward: float
    done: bool


class EnvironmentPool:
    """At most `limit` worlds, each waiting where its history has led it. Any thread may ask."""

    def __init__(
        self, make: Callable[[np.ndarray], "Env[Any, Any]"], act: Callable[[np.ndarray], Any], horizon: int, limit: int
    ) -> None:
        self._make, self._act, self._horizon, self._limit = make, act, horizon, limit
        self._waiting: OrderedDict[Place, list[Env[Any, Any]]] = OrderedDict()  # the longest unused place first
        self._count = 0
        self._lock = Lock()

    def arrive(self, task: np.ndarray, seed: int, actions: np.ndarray) -> Arrival:
        """Where these actions lead; what happens after the end of an episode earns nothing and changes nothing."""
        name = task.tobytes()
        world = self._take((name, seed, actions[:-1].tobytes())) if len(actions) else None
        if world is None:
            world = self._take((name, _AT_REST, b"")) or self._make(task.copy())  # whose memory is not ours
            arrival = self._replay(world, seed, actions)
        else:
            arrival = self._step(world, actions[-1])
        over = arrival.done or len(actions) == self._horizon
        self._keep((name, _AT_REST, b"") if over else (name, seed, actions.tobytes()), world)
        return arrival

    def _replay(self, world: "Env[Any, Any]", seed: int, actions: np.ndarray) -> Arrival:
        arrival = Arrival(world.reset(seed=seed)[0], 0.0, False)
        for action in actions:
            arrival = arrival._replace(reward=0.0) if arrival.done else self._step(world, action)
        return arrival

    def _step(self, world: "Env[Any, Any]", action: np.ndarray) -> Arrival:
        seen, reward, terminated, truncated, _ = world.step(self._act(action))
        return Arrival(seen, float(reward), bool(terminated or truncated))

    def _take(self, place: Place) -> "Env[Any, Any] | None":
        """A world at this place, which then belongs to the caller alone."""
        with self._lock:
            if place not in self._waiting:
                return None
            self._count -= 1
            here = self._waiting[place]
            world = here.pop()
            if not here:
                del self._waiting[place]
            return world

    def _keep(self, place: Place, world: "Env[Any, Any]") -> None:
        with self._lock:
            self._waiting.setdefault(place, []).append(world)
            self._waiting.move_to_end(place)
            self._count += 1
            if self._count <= self._limit:
                return
            self._count -= 1
            oldest, worlds = next(iter(self._waiting.items()))
            unwanted = worlds.pop()
            if not worlds:
                del self._waiting[oldest]
        unwanted.close()
