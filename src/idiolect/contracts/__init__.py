"""The types on which the axes of the system meet, and nothing else.

A run is a fold over a timeline. A `Problem` gives every client its private loss; an `Objective` turns that loss into
what the client minimises; a `Protocol` says how finished work is combined. Objectives never import protocols,
protocols never see a loss, data or a derivative, and the network (see `idiolect.network`) never sees a parameter.

Everything is a small frozen record of pure functions over pytrees: state goes in first and comes out first, randomness
comes from explicit keys, and every function can be compiled.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import jax
import numpy as np
from annotated_types import Gt

from idiolect.contracts.constants import Constants, Variation

PyTree: TypeAlias = Any
Params: TypeAlias = PyTree
Batch: TypeAlias = PyTree
Key: TypeAlias = jax.Array
Scalar: TypeAlias = jax.Array
Info: TypeAlias = dict[str, jax.Array]


class Shard(NamedTuple):
    """One client's share of a split: `size` rows from `start` on, in a store that holds the rows of all clients.

    Clients share one store so that a compiled function serves every client, whatever the size of its data.
    """

    rows: PyTree
    start: jax.Array | np.int32
    size: jax.Array | np.int32


class Split(NamedTuple):
    """One part of everybody's data (say, all test rows), stored client after client."""

    rows: PyTree
    starts: np.ndarray
    sizes: np.ndarray

    def shard(self, client: int) -> Shard:
        """The rows of one client."""
        return Shard(self.rows, self.starts[client], self.sizes[client])


class Oracle(NamedTuple):
    """Stochastic access to one client's f_i. A key names the random function that is differentiated.

    The same key means the same batch (and the same dropout mask, or the same trajectories), so an objective decides
    which of its evaluations share their randomness by reusing a key. Whether f_i is a supervised loss or the return of
    a policy, the objective cannot tell.
    """

    value: Callable[[Params, Key], Scalar]
    gradient: Callable[[Params, Key], tuple[Scalar, Params]]  # value and gradient
    hessian_product: Callable[[Params, Params, Key], Params]  # (point, vector, key)


class Objective(NamedTuple):
    """What a client minimises, made from its oracle. `received` is the model the server sent, before local steps."""

    value: Callable[[Oracle, Params, Params, Key], Scalar]  # (oracle, params, received, key)
    gradient: Callable[[Oracle, Params, Params, Key], tuple[Params, Info]]  # (oracle, params, received, key)
    adapt: Callable[[Oracle, Params, Key], Params]  # what the client does with the model it receives
    family: "Family | None" = None


class Family(NamedTuple):
    """Objectives that differ in numbers only, so that one program, told the numbers as it runs, serves them all."""

    name: tuple[Any, ...]  # alike for all members, and for nobody else
    numbers: dict[str, np.ndarray]  # of this one; zeros at the end of a row must change nothing
    member: Callable[[dict[str, jax.Array]], Objective]  # the one with these numbers


class Compressed(NamedTuple):
    """A client's model where some layers hold few values: those values, by the layer's name, in increasing order."""

    params: Params  # as the client uses them: in these layers, every weight is one of the levels
    weights: Params  # before they were rounded
    levels: dict[str, jax.Array]


class PersonalObjective(NamedTuple):
    """An objective that keeps something of its own on the client between turns: QuPeL's x_i and c_i.

    What is its `own` never travels. A gradient moves it, and tells where the shared model should go. `clients` is how
    many clients it was made for, where that matters.
    """

    begin: Callable[[Params, int], PyTree]  # (the model a client receives first, the client) -> own
    value: Callable[[Oracle, PyTree, Params, Key], Scalar]  # (oracle, own, params, key)
    gradient: Callable[[Oracle, PyTree, Params, Key], tuple[PyTree, Params, Info]]  # (oracle, own, params, key)
    compressed: Callable[[PyTree], Compressed]  # the model that the client would use
    clients: int | None = None


class Learner(NamedTuple):
    """What a client can do alone with its own data; all that a protocol ever sees of learning.

    `own` is what the objective keeps on the client, and nothing to most objectives. A protocol passes it on unseen.
    """

    begin: Callable[[Params, int], PyTree]  # (params, client) -> own
    descend: Callable[[PyTree, Params, Params | None, Shard, Key], tuple[PyTree, Params, Info]]  # (…, start, drift, …)
    gradient: Callable[[PyTree, Params, Shard, Key], Params]
    steps: int
    step_size: float


class Upload(NamedTuple):
    """What a client sends: its total descent w_0 - w_Q (a tree the protocol knows), and how many samples it holds."""

    delta: PyTree
    weight: Scalar | np.int32


class Work(NamedTuple):
    """A client's side of a protocol. `personal` is the state that stays on the client between its turns."""

    init: Callable[[PyTree, int], PyTree]  # (offer, client) -> personal state before the first turn
    turn: Callable[[PyTree, PyTree, Shard, Key], tuple[PyTree, Upload, Info]]  # (personal, offer, data, key)
    model: Callable[[PyTree, PyTree], Params]  # (personal, offer) -> the model this client would start to adapt from
    own: Callable[[PyTree], PyTree]  # the objective's part of the personal state


class Server(NamedTuple):
    """The other side: deterministic, without I/O, so that a simulator and a real server can call the same functions."""

    init: Callable[[Params, int], PyTree]  # (params, number of clients) -> state
    offer: Callable[[PyTree], PyTree]  # what a client downloads
    absorb: Callable[[PyTree, Upload, Scalar], PyTree]  # (state, upload, staleness) -> state
    close: Callable[[PyTree], PyTree]  # a round is over; protocols without rounds never hear of it
    read: Callable[[PyTree], Params]


class Schedule(NamedTuple):
    """When clients work: all that a network needs to know of a protocol to draw its timeline."""

    rounds: bool
    participation: float = 1.0  # the fraction r of clients in a round
    updates_per_step: int = 1  # arrivals between two versions of the model, where there are no rounds
    cohort_only: bool = False  # the server has no room for more updates a round than the cohort sends

    def cohort(self, clients: int) -> int:
        """How many of the clients work in a round."""
        return max(1, round(self.participation * clients))


class Protocol(NamedTuple):
    """A server, the clients' side of it, and the schedule it needs."""

    server: Server
    work: Callable[[Learner], Work]
    schedule: Schedule


class Mass(NamedTuple):
    """Some of what a network of peers shares out: a model times a weight, and the weight."""

    x: PyTree
    y: Scalar


class Message(NamedTuple):
    """What an agent tells all its out-neighbours when it wakes. The round tells old news from new."""

    content: PyTree
    round: Scalar


class Peer(NamedTuple):
    """A protocol without a server: what one agent does, as pure functions of its own state.

    A simulator maps them over all agents; a peer on a real network calls the same functions on its own state.
    What `receive` returns for the messages of one waking is added up and given to `settle`.
    """

    carries: Literal["sums", "shares", "copies"]  # a newer sum says all that older ones said; a share leaves its sender
    init: Callable[[Params, Scalar], PyTree]  # (params, out-degree) -> state
    remember: Callable[[Params, Scalar], PyTree]  # (params, own out-degree) -> what is known of a silent in-neighbour
    emit: Callable[[PyTree, Params, Scalar], tuple[PyTree, Message]]  # (state, descent, round)
    receive: Callable[[PyTree, Message], tuple[PyTree, PyTree]]  # (memory of the sender, message) -> memory, gain
    settle: Callable[[PyTree, PyTree], PyTree]  # (state, sum of gains) -> state
    holds: Callable[[PyTree], Mass]
    read: Callable[[PyTree], Params]


class Metric(NamedTuple):
    """How a model is scored: `score(params, batch)` is a mean over the batch."""

    name: str
    score: Callable[[Params, Batch], Scalar]
    higher_is_better: bool


class Clients(NamedTuple):
    """Every client's data in four parts that never overlap, and which clients take no part in training."""

    train: Split
    adapt: Split
    validation: Split
    test: Split
    unseen: frozenset[int] = frozenset()

    @property
    def total(self) -> int:
        """How many clients there are, unseen ones included."""
        return len(self.train.sizes)

    @property
    def participating(self) -> list[int]:
        """The clients that take part in training."""
        return [client for client in range(self.total) if client not in self.unseen]


class Scene(NamedTuple):
    """Some episodes of a policy on a map: where it went, and where it should have gone."""

    paths: jax.Array | np.ndarray  # (episodes, places, 2)
    goal: jax.Array | np.ndarray  # (2,)


class Problem(NamedTuple):
    """Where f_i comes from; and, where they are known, its constants and minimisers, for advice, refusals and ledgers.

    `smoothness` is the L of every f_i, `constants` are those of every sample, `variation` is that of the training data.
    `optimum` gives the minimiser of the average cost under an objective: (the objective's name, its options, the batch
    size) -> params, or None. `calibrate` fills in what a model must know of the data it will meet, from samples of the
    same client that are not scored: the statistics of batch normalization, which so never leave the client. `also` are
    further metrics of the same models. `references` score what no algorithm here learns (the best there is, a classic
    rival) on a split: one row for each metric, one column for each client. `scene` is what a model does on some rows,
    for a picture.
    """

    name: str
    init: Callable[[Key], Params]
    oracle: Callable[[Shard, int], Oracle]  # (data, batch size)
    metric: Metric
    clients: Clients
    smoothness: float | None = None
    constants: Constants | None = None
    optimum: Callable[[str, Mapping[str, Any], int], Params | None] = lambda objective, options, batch_size: None
    calibrate: Callable[[Params, Shard], Params] = lambda params, shard: params
    also: tuple[Metric, ...] = ()
    references: Mapping[str, Callable[[Split], np.ndarray]] = {}
    scene: Callable[[Params, Shard], Scene] | None = None
    variation: Variation | None = None

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The headline metric, and the others."""
        return (self.metric, *self.also)


class StepRule(NamedTuple):
    """The step size theta(t) of round t, as a multiple of an algorithm's step size c.

    `constant`: c. `decreasing`: c / (t + offset). `horizon`: c sqrt(n / T), for n agents and T rounds.
    """

    name: Literal["constant", "decreasing", "horizon"] = "constant"
    offset: Annotated[float, Gt(0)] = 1.0


class Screening(NamedTuple):
    """What a server does with updates that cannot be right: not finite, of a wrong shape, or much too large.

    `reject` leaves them out, `clip` leaves them out or, if only too large, cuts them down, `stop` ends the run.
    Too large is what is more than `too_large` times as long as updates usually are.
    """

    policy: Literal["reject", "clip", "stop"] = "reject"
    too_large: Annotated[float, Gt(1)] = 1e4


class Algorithm(NamedTuple):
    """One cell of the table: an objective, a protocol, and how a client descends."""

    name: str
    objective: Objective | PersonalObjective
    protocol: Protocol | Peer
    local_steps: int
    step_size: float
    batch_size: int
    step_rule: StepRule = StepRule()
    screening: Screening = Screening()  # where there is a server
    attacked: bool = False  # some clients lie, so that to diverge is a result and not a mistake
