"""The interface of protocols without a server: what one agent does, as pure functions of its own state."""

from typing import Literal, NamedTuple, Protocol

from idiolect.contracts.aliases import Params, PyTree, Scalar


class Mass(NamedTuple):
    """Some of what a network of peers shares out: a model times a weight, and the weight."""

    x: PyTree
    y: Scalar


class Message(NamedTuple):
    """What an agent tells all its out-neighbours when it wakes. The round tells old news from new."""

    content: PyTree
    round: Scalar


class PeerInit(Protocol):
    """An agent's state at first: it has this model and sends to so many others."""

    def __call__(self, params: Params, degree: Scalar, /) -> PyTree: ...


class Remember(Protocol):
    """What an agent that sends to so many others knows of an in-neighbour that has not spoken yet."""

    def __call__(self, params: Params, degree: Scalar, /) -> PyTree: ...


class Emit(Protocol):
    """An agent wakes and has descended by so much: (its state, what it tells its out-neighbours)."""

    def __call__(self, state: PyTree, descent: Params, round: Scalar, /) -> tuple[PyTree, Message]: ...


class Receive(Protocol):
    """Take in a message: (what is known of its sender now, what it brings)."""

    def __call__(self, memory: PyTree, message: Message, /) -> tuple[PyTree, PyTree]: ...


class Settle(Protocol):
    """Add up what the messages of one waking brought."""

    def __call__(self, state: PyTree, gain: PyTree, /) -> PyTree: ...


class Holds(Protocol):
    """The mass that an agent has."""

    def __call__(self, state: PyTree, /) -> Mass: ...


class ReadPeer(Protocol):
    """An agent's model."""

    def __call__(self, state: PyTree, /) -> Params: ...


class Redirect(Protocol):
    """An agent that wakes now sends to so many others, on a graph that changes."""

    def __call__(self, state: PyTree, degree: Scalar, /) -> PyTree: ...


class Recall(Protocol):
    """The newest message that a memory is of; its round is below 0 if nothing was ever heard."""

    def __call__(self, memory: PyTree, /) -> Message: ...


class Ahead(Protocol):
    """Is what others heard of an agent more than it knows to have said?"""

    def __call__(self, state: PyTree, heard: PyTree, /) -> Scalar: ...


class Rejoin(Protocol):
    """An agent whose state is older than what others heard of it: its state, once it knows what it last told them."""

    def __call__(self, state: PyTree, heard: PyTree, /) -> PyTree: ...


class Rebirth(NamedTuple):
    """How an agent comes back whose disk was lost or put back to an earlier day, so that mass is kept.

    Its out-neighbours `recall` what they heard of it; if that is `ahead` of what it knows, it does `rejoin`.
    """

    recall: Recall
    ahead: Ahead
    rejoin: Rejoin


class Peer(NamedTuple):
    """A protocol without a server: what one agent does, as pure functions of its own state.

    A simulator maps them over all agents; a peer on a real network calls the same functions on its own state.
    What `receive` returns for the messages of one waking is added up and given to `settle`.

    With `summed_steps` the step sizes of the rounds that an agent slept through add up (PARS-Push, Alg. 1, l. 4);
    without, it steps with that of the round in which it wakes. At most `catch_up` rounds add up, the last ones, if it
    is given: on a real network one agent may sleep for days. `redirect` is for graphs that change: without it, an
    agent shares out to all that it ever sends to. `rebirth` is for real disks, which can be lost.
    """

    carries: Literal["sums", "shares", "copies"]  # a newer sum says all that older ones said; a share leaves its sender
    init: PeerInit
    remember: Remember
    emit: Emit
    receive: Receive
    settle: Settle
    holds: Holds
    read: ReadPeer
    summed_steps: bool = True
    redirect: Redirect | None = None
    catch_up: int | None = None
    rebirth: Rebirth | None = None
