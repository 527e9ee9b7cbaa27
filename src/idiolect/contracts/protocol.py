"""The interface of protocols with a server: its side, the clients' side, and when clients work."""

from typing import NamedTuple
from typing import Protocol as Callback

import numpy as np

from idiolect.contracts.aliases import Info, Key, Params, PyTree, Scalar
from idiolect.contracts.client_data import Shard
from idiolect.contracts.objective import Begin


class Drift(Callback):
    """What a protocol adds to the gradient at a model (SCAFFOLD's c - c_i)."""

    def __call__(self, params: Params, /) -> Params: ...


class Descend(Callback):
    """Take the local steps from `start`; `drift`, if any, is added to every gradient: (own, model reached, reports)."""

    def __call__(
        self, own: PyTree, start: Params, drift: Drift | None, shard: Shard, key: Key, /
    ) -> tuple[PyTree, Params, Info]: ...


class LocalValue(Callback):
    """What the client's objective comes to at a model, on one batch."""

    def __call__(self, own: PyTree, params: Params, shard: Shard, key: Key, /) -> Scalar: ...


class LocalGradient(Callback):
    """The gradient of the client's objective at a model, on one batch."""

    def __call__(self, own: PyTree, params: Params, shard: Shard, key: Key, /) -> Params: ...


class CountSteps(Callback):
    """The local steps of a turn on these rows: a number, or the trace of one where that follows from the rows."""

    def __call__(self, shard: Shard, /) -> Scalar | int: ...


class FoldSteps(Callback):
    """Apply `step` to a state as often as a turn on these rows has local steps, with a key for each of them."""

    def __call__(self, step: "Step", state: PyTree, shard: Shard, key: Key, /) -> tuple[PyTree, Info]: ...


class Step(Callback):
    """One of them: (state, reports)."""

    def __call__(self, state: PyTree, key: Key, /) -> tuple[PyTree, Info]: ...


class AtPace(Callback):
    """The same learner with steps so many times as long."""

    def __call__(self, pace: Scalar, /) -> "Learner": ...


class Learner(NamedTuple):
    """What a client can do alone with its own data; all that a protocol ever sees of learning.

    `own` is what the objective keeps on the client, and nothing to most objectives. A protocol passes it on unseen.
    `steps` is None where clients take passes over their rows, so that `steps_on` differs from client to client.
    """

    begin: Begin
    descend: Descend
    gradient: LocalGradient
    value: LocalValue
    steps_on: CountSteps
    fold: FoldSteps
    at: AtPace
    steps: int | None
    step_size: Scalar | float


class Upload(NamedTuple):
    """What a client sends: its total descent w_0 - w_Q (a tree the protocol knows), and how many samples it holds.

    `about` is what else the server must know, such as which of several models the descent is of. It does not count when
    the length of an update is looked at.
    """

    delta: PyTree
    weight: Scalar | np.int32
    about: PyTree = ()


class WorkInit(Callback):
    """What stays on a client before its first turn."""

    def __call__(self, offer: PyTree, client: int, key: Key, /) -> PyTree: ...


class TakeTurn(Callback):
    """One turn of a client: (what it keeps, what it sends, reports of every local step)."""

    def __call__(self, personal: PyTree, offer: PyTree, shard: Shard, key: Key, /) -> tuple[PyTree, Upload, Info]: ...


class WorkModel(Callback):
    """The model that a client would start to adapt from."""

    def __call__(self, personal: PyTree, offer: PyTree, /) -> Params: ...


class ChooseModel(Callback):
    """What a client keeps once it has chosen, by these rows of its own, among the models of an offer."""

    def __call__(self, personal: PyTree, offer: PyTree, shard: Shard, key: Key, /) -> PyTree: ...


class WorkOwn(Callback):
    """The objective's part of what a client keeps."""

    def __call__(self, personal: PyTree, /) -> PyTree: ...


class Work(NamedTuple):
    """A client's side of a protocol. `personal` is the client's own state between its turns.

    No protocol sends it to a server or to others. An engine may: on Ray it travels with each turn, and it is in every
    checkpoint, so that no death of a machine loses it (docs/privacy.md).

    Where an offer has several models, `choose` is called with a client's adaptation part before `model` is.
    """

    init: WorkInit
    turn: TakeTurn
    model: WorkModel
    own: WorkOwn
    choose: ChooseModel | None = None


class ServerInit(Callback):
    """The server's state before the first update, for so many clients that take part."""

    def __call__(self, params: Params, clients: int, /) -> PyTree: ...


class Offer(Callback):
    """What a client downloads."""

    def __call__(self, state: PyTree, /) -> PyTree: ...


class Absorb(Callback):
    """Take in an update that began with a model `staleness` versions old."""

    def __call__(self, state: PyTree, upload: Upload, staleness: Scalar, /) -> PyTree: ...


class Close(Callback):
    """A round is over; protocols without rounds never hear of it."""

    def __call__(self, state: PyTree, /) -> PyTree: ...


class ReadServer(Callback):
    """The shared model."""

    def __call__(self, state: PyTree, /) -> Params: ...


class Server(NamedTuple):
    """The other side: deterministic, without I/O, so that a simulator and a real server can call the same functions."""

    init: ServerInit
    offer: Offer
    absorb: Absorb
    close: Close
    read: ReadServer


class Schedule(NamedTuple):
    """When clients work: all that a network needs to know of a protocol to draw its timeline."""

    rounds: bool
    participation: float = 1.0  # the fraction r of clients in a round
    updates_per_step: int = 1  # arrivals between two versions of the model, where there are no rounds
    cohort_only: bool = False  # the server has no room for more updates a round than the cohort sends

    def cohort(self, clients: int) -> int:
        """How many of the clients work in a round."""
        return max(1, round(self.participation * clients))


class Sends(Callback):
    """What an update must look like, from what was offered."""

    def __call__(self, offer: PyTree, /) -> PyTree: ...


class MakeWork(Callback):
    """The clients' side of a protocol, for clients that learn in this way."""

    def __call__(self, learner: Learner, /) -> Work: ...


class Protocol(NamedTuple):
    """A server, the clients' side of it, and the schedule it needs."""

    server: Server
    work: MakeWork
    schedule: Schedule
    shares: bool = True  # whether anything that clients send reaches anybody
    sends: Sends = lambda offer: offer
