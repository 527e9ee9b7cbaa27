"""The algorithm record: an objective under a protocol, and how a client descends."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal, NamedTuple

from annotated_types import Ge, Gt, Lt

from idiolect.contracts.objective import Objective
from idiolect.contracts.peer import Peer
from idiolect.contracts.protocol import Protocol
from idiolect.contracts.step_rules import StepRule


class Screening(NamedTuple):
    """What a server does with updates that cannot be right: not finite, of a wrong shape, too large, or against all.

    A client whose updates are refused again and again is put off: what it sends is looked at and left out, until it has
    sent what is right for long enough.

    Args:
        policy: `reject` leaves them out, `clip` leaves them out or, if only too large, cuts them down, `stop` ends the
            run.
        too_large: How many times as long as updates usually are, which is the median over clients. Longer ones cannot
            be told from lies by their length alone; what honest clients come to is measured in docs/lies.md.
        least_cosine: Between an update and the mean direction of what other clients sent last; below it, an update is
            refused. -1 refuses nobody. Honest clients with unlike data point away from each other, so that no other
            default is safe (docs/lies.md).
        strikes: As many refusals as put a client off; 0 puts off nobody.
        forget: In so many updates that are right, half of a client's refusals are forgotten.

    Example:
        >>> from idiolect import Screening
        >>> Screening("clip", too_large=100.0).policy
        'clip'
    """

    policy: Literal["reject", "clip", "stop"] = "reject"
    too_large: Annotated[float, Gt(1)] = 25.0
    least_cosine: Annotated[float, Ge(-1), Lt(1)] = -1.0
    strikes: Annotated[int, Ge(0)] = 3
    forget: Annotated[float, Gt(0)] = 10.0


class LocalOptimizer(NamedTuple):
    """How a client steps along its gradients.

    Args:
        name: `sgd` steps along the gradient, `momentum` along a sum of gradients in which old ones fade, `adam` scales
            every coordinate by an average of its squares.
        beta1: How much of the past stays in each step, for `momentum` and `adam`.
        beta2: The same for squares, for `adam`.
        epsilon: Added to the root, for `adam`.
        keep: Whether a client keeps what its optimizer knows from one turn to the next, or begins every turn afresh.

    Example:
        >>> from idiolect import LocalOptimizer
        >>> LocalOptimizer("momentum", keep=True).beta1
        0.9
    """

    name: Literal["sgd", "momentum", "adam"] = "sgd"
    beta1: Annotated[float, Ge(0), Lt(1)] = 0.9
    beta2: Annotated[float, Ge(0), Lt(1)] = 0.999
    epsilon: Annotated[float, Gt(0)] = 1e-8
    keep: bool = False


TrainOrder = Literal["together", "private_first", "shared_only"]


class Sharing(NamedTuple):
    """Which part of a model stays with a client, and when it learns.

    Args:
        private: `first`, `last`, `body` or patterns of names such as `dense.*`; in Python, also a function of a name.
        train_order: Whether the private part learns together with the rest, before it, or not while clients train.
        private_steps: How many local steps of a turn are the private part's, where it learns before the other.
        tune_steps: By how many steps a client tunes a private part that nobody has trained.

    Example:
        >>> from idiolect import Sharing
        >>> Sharing(private=["last"]).train_order
        'together'
    """

    private: Sequence[str] | Callable[[str], bool] = ()
    train_order: TrainOrder = "together"
    private_steps: Annotated[int, Ge(1)] = 5
    tune_steps: Annotated[int, Ge(0)] = 10


class Algorithm(NamedTuple):
    """An objective under a protocol, and how a client descends.

    Args:
        name: What it is called in results.
        objective: What a client minimises.
        protocol: How finished work is combined, with a server or between peers.
        local_steps: Gradient steps of a turn.
        step_size: Of a local step.
        batch_size: Samples of a gradient.
        step_rule: How the step size changes from round to round.
        screening: What a server does with updates that cannot be right.
        attacked: Whether some clients lie, so that to diverge is a result and not a mistake.
        sharing: Which part of the model stays with its client.
        optimizer: How a client steps along its gradients.
        epochs: In place of `local_steps`, how many passes over its training part a client takes in a turn.
        side_by_side: How many clients' turns the simulator computes at once; None leaves it to the device.

    Example:
        >>> from idiolect import Algorithm, objectives, protocols
        >>> Algorithm("mine", objectives.maml(steps=2), protocols.buffered(size=5), local_steps=3).local_steps
        3
    """

    name: str
    objective: Objective
    protocol: Protocol | Peer
    local_steps: int = 10
    step_size: float = 0.01
    batch_size: int = 32
    step_rule: StepRule = StepRule()
    screening: Screening = Screening()
    attacked: bool = False
    sharing: Sharing = Sharing()
    optimizer: LocalOptimizer = LocalOptimizer()
    epochs: int | None = None
    side_by_side: int | None = None
