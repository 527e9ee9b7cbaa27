"""The algorithm record: an objective under a protocol, and how a client descends."""

from typing import Annotated, Literal, NamedTuple

from annotated_types import Gt

from idiolect.contracts.objective import Objective
from idiolect.contracts.peer import Peer
from idiolect.contracts.protocol import Protocol


class StepRule(NamedTuple):
    """The step size theta(t) of round t, as a multiple of an algorithm's step size c.

    Args:
        name: `constant` is c, `decreasing` c / (t + offset), `horizon` c sqrt(n / T), for n agents and T rounds.
        offset: Of `decreasing`.

    Example:
        >>> from idiolect import StepRule
        >>> StepRule("decreasing", offset=10.0).name
        'decreasing'
    """

    name: Literal["constant", "decreasing", "horizon"] = "constant"
    offset: Annotated[float, Gt(0)] = 1.0


class Screening(NamedTuple):
    """What a server does with updates that cannot be right: not finite, of a wrong shape, or much too large.

    Args:
        policy: `reject` leaves them out, `clip` leaves them out or, if only too large, cuts them down, `stop` ends the
            run.
        too_large: How many times as long as updates usually are.

    Example:
        >>> from idiolect import Screening
        >>> Screening("clip", too_large=100.0).policy
        'clip'
    """

    policy: Literal["reject", "clip", "stop"] = "reject"
    too_large: Annotated[float, Gt(1)] = 1e4


class Algorithm(NamedTuple):
    """An objective under a protocol, and how a client descends.

    Args:
        name: What it is called in results.
        objective: What a client minimises.
        protocol: How finished work is combined, with a server or between peers.
        local_steps: Gradient steps of a turn.
        step_size: Of a local step.
        batch_size: Samples of a gradient.
        step_rule: How the step size changes from round to round, where there is no server.
        screening: What a server does with updates that cannot be right.
        attacked: Whether some clients lie, so that to diverge is a result and not a mistake.

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
