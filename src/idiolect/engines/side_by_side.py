"""Several turns as one computation: for accelerators, which would be handed one client at a time otherwise.

Every call computes the same number of turns. A batch that is not full when one of its turns is needed is filled up with
its last turn again. So every turn is computed by one and the same program, and what it returns does not depend on who
shares the call: results are the same to the byte for a given width, and to rounding for any other.
"""

from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Clients, Shard
from idiolect.engines.backend import Backend, Job, Pending, ThreadBackend
from idiolect.engines.several_devices import SeveralDevices, clients_at, homes_of, program_at
from idiolect.engines.simulator.server_program import Program, Turn, training_key
from idiolect.engines.workers import Workers
from idiolect.trees import bytes_of

AHEAD = 3  # batches for each worker: one that is computed, one that waits for it, one that fills up
WIDEST = 64  # turns at once: beyond that an accelerator gains little, and the server waits for the first of them
SHARE = 4  # at most a quarter of a device's memory is for turns side by side
COPIES = 8  # of a model that a turn needs at once: it, its gradients, what it began with, what comes back, …


def width_for(model_bytes: int, memory_bytes: int | None) -> int:
    """How many turns a device computes at once by itself, if its memory is known; else one."""
    if memory_bytes is None:
        return 1
    return int(np.clip(memory_bytes // SHARE // (COPIES * max(model_bytes, 1)), 1, WIDEST))


def accelerator_memory() -> int | None:
    """The bytes of the accelerator that JAX uses; None on CPUs, and where it does not tell."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    return None if stats is None else stats.get("bytes_limit")


class Batching(NamedTuple):
    """How many turns are computed at once, what that follows from, and on how many devices."""

    width: int
    model_bytes: int
    memory_bytes: int | None  # of a device, where that decides
    devices: int
    asked: bool  # whether the algorithm says how many


def batching_of(program: Program, seed: int) -> Batching:
    """As many turns at once as the algorithm asks for, or as a device likes, on each of this machine's devices."""
    model = bytes_of(jax.eval_shape(program.init, jax.random.key(seed)))
    asked, memory = program.algorithm.side_by_side, accelerator_memory()
    if asked is not None:
        return Batching(asked, model, None, jax.local_device_count(), asked=True)
    return Batching(width_for(model, memory), model, memory, jax.local_device_count(), asked=False)


def threads(program: Program, clients: Clients, workers: Workers, seed: int, width: int | None = None) -> Backend:
    """The threads of this process, with as many turns at once as are asked for, or as the devices like.

    With a `width` the first device alone computes, so many turns at once.
    """
    if width is not None:
        return _on_one_device(program, clients, workers, seed, width)
    width, devices = batching_of(program, seed).width, jax.local_devices()
    homes = homes_of(clients, devices)
    if len(homes) == 1:
        return _on_one_device(program, clients, workers, seed, width)
    backends = [
        _on_one_device(
            program_at(program, device, devices[0]), clients_at(clients, members, device), workers, seed, width
        )
        for device, members in zip(devices, homes, strict=False)  # there may be fewer clients than devices
    ]
    return SeveralDevices(backends, homes)


def _on_one_device(program: Program, clients: Clients, workers: Workers, seed: int, width: int) -> Backend:
    if width == 1:
        return ThreadBackend(program, clients, workers, seed)
    return SideBySide(program, clients, workers, seed, width)


class Batch:
    """Turns that are computed together, once there are enough of them or one is needed."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.future: Future[list[Turn]] | None = None


class Place(NamedTuple):
    """One turn of a batch."""

    backend: "SideBySide"
    batch: Batch
    number: int

    @property
    def future(self) -> Future[list[Turn]]:
        """The whole batch, which begins now if it has not begun."""
        return self.backend.begin(self.batch)

    def done(self) -> bool:
        """Is it there?"""
        return self.future.done()

    def result(self) -> Turn:
        """What the client sends, once it is there."""
        return self.future.result()[self.number]


class SideBySide:
    """The threads of this process, each of which computes `width` turns in a call."""

    def __init__(self, program: Program, clients: Clients, workers: Workers, seed: int, width: int) -> None:
        self.count, self.ahead = workers.count, AHEAD * width * workers.count
        self._program, self._split, self._workers, self._key = program, clients.train, workers, training_key(seed)
        self._width, self._filling = width, Batch()

    def submit(self, job: Job) -> Place:
        """Put a turn into the batch that fills up."""
        batch = self._filling
        batch.jobs.append(job)
        if len(batch.jobs) == self._width:
            self.begin(batch)
        return Place(self, batch, len(batch.jobs) - 1)

    def begin(self, batch: Batch) -> Future[list[Turn]]:
        """Compute a batch, however full it is."""
        if batch.future is None:
            if batch is self._filling:
                self._filling = Batch()
            jobs = [*batch.jobs, *[batch.jobs[-1]] * (self._width - len(batch.jobs))]
            places = [job.client for job in jobs]
            batch.future = self._workers.submit(
                self._program.turns,
                [job.personal for job in jobs],
                [job.offer for job in jobs],
                Shard(
                    self._split.rows, jnp.asarray(self._split.starts[places]), jnp.asarray(self._split.sizes[places])
                ),
                self._key,
                np.array([job.turn for job in jobs], np.int32),
            )
            batch.jobs = []  # what clients had and received need not stay in memory for them
        return batch.future

    def ready(self, pending: Mapping[int, Pending], seconds: float) -> list[int]:
        """Which of these are done; wait for the first of them, but no longer than this."""
        places = {number: place.future for number, place in pending.items() if isinstance(place, Place)}
        done = wait(set(places.values()), seconds, FIRST_COMPLETED).done
        return [number for number, future in places.items() if future in done]
