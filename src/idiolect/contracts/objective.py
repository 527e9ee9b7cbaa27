"""The objective interface: what a client minimises, whether it keeps something on the client or not."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from idiolect.contracts.aliases import Info, Key, Params, PyTree, Scalar
from idiolect.contracts.constants import Constants


class OracleValue(Protocol):
    """f_i at a point, on the batch that the key names."""

    def __call__(self, params: Params, key: Key, /) -> Scalar: ...


class OracleGradient(Protocol):
    """f_i and its gradient at a point, on the batch that the key names."""

    def __call__(self, params: Params, key: Key, /) -> tuple[Scalar, Params]: ...


class OracleHessianProduct(Protocol):
    """The Hessian of f_i at a point times a vector, on the batch that the key names."""

    def __call__(self, params: Params, vector: Params, key: Key, /) -> Params: ...


class Oracle(NamedTuple):
    """Stochastic access to one client's f_i. A key names the random function that is differentiated.

    The same key means the same batch (and the same dropout mask, or the same trajectories), so an objective decides
    which of its evaluations share their randomness by reusing a key. Whether f_i is a supervised loss or the return of
    a policy, the objective cannot tell.
    """

    value: OracleValue
    gradient: OracleGradient
    hessian_product: OracleHessianProduct


class Compressed(NamedTuple):
    """A client's model where some layers hold few values: those values, by the layer's name, in increasing order."""

    params: Params  # as the client uses them: in these layers, every weight is one of the levels
    weights: Params  # before they were rounded
    levels: dict[str, jax.Array]


def uncompressed(params: Params) -> Compressed:
    """A model in full precision.

    Args:
        params: The model.

    Returns:
        The model as it is, with no levels.

    Example:
        >>> import jax.numpy as jnp
        >>> from idiolect.contracts import uncompressed
        >>> uncompressed(jnp.zeros(2)).levels
        {}
    """
    return Compressed(params, params, {})


class Begin(Protocol):
    """What an objective keeps on a client at first, from the model that the client receives first.

    The key is the run's, the same for all clients: the one that the first shared model is drawn with.
    """

    def __call__(self, params: Params, client: int, key: Key, /) -> PyTree: ...


class Value(Protocol):
    """What is minimised, at the shared model `params` and at what the client keeps as its `own`."""

    def __call__(self, oracle: Oracle, own: PyTree, params: Params, received: Params, key: Key, /) -> Scalar: ...


class Gradient(Protocol):
    """Move what is the client's own, and tell where the shared model should go: (own, gradient, reports)."""

    def __call__(
        self, oracle: Oracle, own: PyTree, params: Params, received: Params, key: Key, /
    ) -> tuple[PyTree, Params, Info]: ...


class Direct(Protocol):
    """What a client steps along, from its gradient and from what its optimizer knows: (own, direction)."""

    def __call__(self, own: PyTree, gradient: Params, /) -> tuple[PyTree, Params]: ...


class Rouse(Protocol):
    """What a client keeps at the beginning of a turn whose steps are `pace` times as long as its step size."""

    def __call__(self, own: PyTree, pace: Scalar | float, /) -> PyTree: ...


class Adapt(Protocol):
    """The model that a client uses, from what it keeps and what it has received."""

    def __call__(self, oracle: Oracle, own: PyTree, params: Params, key: Key, /) -> Compressed: ...


class Shared(Protocol):
    """What of a whole model travels: the same tree with None in the place of what stays on the client."""

    def __call__(self, params: Params, /) -> Params: ...


class Whole(Protocol):
    """A client's whole model, from what it keeps and from what it has received."""

    def __call__(self, own: PyTree, params: Params, /) -> Params: ...


class Known(NamedTuple):
    """What an objective may ask of a problem: how many clients there are, and the constants of their losses."""

    clients: int
    smoothness: float | None = None
    constants: Constants | None = None


class Check(Protocol):
    """Refuse a problem on which the objective cannot work (`UserMistake`), and return what theory would warn of."""

    def __call__(self, known: Known, /) -> Sequence[str]: ...


class PersonalSteps(NamedTuple):
    """The cost f_i after some gradient steps, in expectation over batches: of MAML, and of f_i itself without steps."""

    steps: int = 0
    step_size: float = 0.0
    shared_batches: bool = False  # whether the Hessian of a step is taken on that step's own batch


class Family(NamedTuple):
    """Objectives that differ in numbers only, so that one program, told the numbers as it runs, serves them all."""

    name: tuple[Any, ...]  # alike for all members, and for nobody else
    numbers: dict[str, np.ndarray]  # of this one; zeros at the end of a row must change nothing
    member: Callable[[dict[str, jax.Array]], "Objective"]  # the one with these numbers


class Objective(NamedTuple):
    """What a client minimises, made from its oracle.

    Args:
        begin: What it keeps on a client at first, the client's `own` (QuPeL's x_i and c_i). No protocol sends it to
            others; an engine on many machines may carry it to where the client works and keep it in checkpoints
            (docs/privacy.md). `stateless` makes an objective that keeps nothing.
        value: What is minimised; `received` is the model as it was sent, before local steps.
        gradient: Moves what is the client's own, and tells where the shared model should go.
        adapt: The model that a client uses.
        check: Refuses problems on which the objective cannot work, and gives advice.
        minimises: Says in closed form what the cost is, where a problem may know its minimiser.
        family: The objectives that differ from this one in numbers only.
        shared: What of a whole model travels; by default all of it. Servers and peers see nothing else.
        whole: A client's whole model again, before it adapts.
        direct: What a client steps along, if not along the gradient itself.
        rouse: What a client makes of its own when a turn begins; an optimizer that starts afresh does so here.
    """

    begin: Begin
    value: Value
    gradient: Gradient
    adapt: Adapt
    check: Check = lambda known: ()
    minimises: PersonalSteps | None = None
    family: Family | None = None
    shared: Shared = lambda params: params
    whole: Whole = lambda own, params: params
    direct: Direct = lambda own, gradient: (own, gradient)
    rouse: Rouse = lambda own, pace: own


class PlainValue(Protocol):
    """The value of an objective that keeps nothing on the client."""

    def __call__(self, oracle: Oracle, params: Params, received: Params, key: Key, /) -> Scalar: ...


class PlainGradient(Protocol):
    """The gradient of an objective that keeps nothing on the client, and reports."""

    def __call__(self, oracle: Oracle, params: Params, received: Params, key: Key, /) -> tuple[Params, Info]: ...


class PlainAdapt(Protocol):
    """What a client makes of the model it receives, if it keeps nothing."""

    def __call__(self, oracle: Oracle, params: Params, key: Key, /) -> Params: ...


def as_received(oracle: Oracle, own: PyTree, params: Params, key: Key) -> Compressed:
    """Adaptation that changes nothing: the same function for all that do so, so that one program scores them all."""
    return uncompressed(params)


def stateless(
    value: PlainValue,
    gradient: PlainGradient,
    adapt: PlainAdapt | None = None,
    *,
    check: Check = lambda known: (),
    minimises: PersonalSteps | None = None,
    family: Family | None = None,
) -> Objective:
    """An objective that keeps nothing on the client between turns.

    Args:
        value: What is minimised, at the shared model.
        gradient: Its gradient, and numbers to report; `loss` must be among them.
        adapt: What a client makes of the model it receives; by default, nothing.
        check: Refuses problems on which the objective cannot work, and gives advice.
        minimises: The cost in closed form, where it has one.
        family: The objectives that differ from this one in numbers only.

    Returns:
        The objective, whose `own` is empty.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.contracts import Oracle, stateless
        >>> def value(oracle, params, received, key):
        ...     return oracle.value(params, key)
        >>> def gradient(oracle, params, received, key):
        ...     loss, grads = oracle.gradient(params, key)
        ...     return grads, {"loss": loss}
        >>> objective = stateless(value, gradient)
        >>> objective.begin(jnp.zeros(2), 0, jax.random.key(0))
        ()
    """
    return Objective(
        begin=lambda params, client, key: (),
        value=lambda oracle, own, params, received, key: value(oracle, params, received, key),
        gradient=lambda oracle, own, params, received, key: (own, *gradient(oracle, params, received, key)),
        adapt=as_received
        if adapt is None
        else lambda oracle, own, params, key: uncompressed(adapt(oracle, params, key)),
        check=check,
        minimises=minimises,
        family=family,
    )
