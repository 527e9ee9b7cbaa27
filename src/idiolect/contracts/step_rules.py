"""How the step size of an algorithm changes from round to round."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from idiolect.errors import UserMistake


class StepRule(NamedTuple):
    """The step size theta(t) of round t, as a multiple of an algorithm's step size c.

    With a server, t counts the versions of the shared model: rounds, or where there are none, updates (of `buffered`,
    full buffers). A client steps as the version says that it was offered. Where nothing is shared, t counts the
    client's own turns.

    Args:
        name: `constant` is c, `decay` c decay^k drop^j, `decreasing` c / (t + offset), `horizon` c sqrt(n / T), for n
            agents and T rounds without a server (of PARS-Push, Theorem 1), `inverse` c / t and 0 in round 0 (its
            Proposition 1, with c = 1 / mu), `own` c theta(t).
        offset: Of `decreasing`.
        theta: Of `own`: a function of the round t = 0, 1, 2, …, in Python.
        decay: Of `decay`, which has k whole periods of `every` rounds behind it.
        every: How long such a period is.
        at: Of `decay`, the rounds of which j are reached.
        drop: What each of these multiplies the step size by.

    Example:
        >>> from idiolect import StepRule
        >>> StepRule("own", theta=lambda t: 0.5**t).theta(2)
        0.25
        >>> StepRule("decay", at=(50, 75)).drop
        0.1
    """

    name: Literal["constant", "decay", "decreasing", "horizon", "inverse", "own"] = "constant"
    offset: Annotated[float, Gt(0)] = 1.0
    theta: Callable[[int], float] | None = None
    decay: Annotated[float, Gt(0)] = 1.0
    every: Annotated[int, Ge(1)] = 1
    at: tuple[Annotated[int, Ge(1)], ...] = ()
    drop: Annotated[float, Gt(0)] = 0.1


def is_constant(rule: StepRule) -> bool:
    """Does the step size never change?"""
    still = rule.decay == 1 and (not rule.at or rule.drop == 1)
    return rule.name == "constant" or (rule.name == "decay" and still)


def decayed(rule: StepRule, t: Any) -> Any:
    """decay^k drop^j for a round, or for an array of them."""
    return rule.decay ** (t // rule.every) * rule.drop ** sum(t >= moment for moment in rule.at)


def own_theta(rule: StepRule) -> Callable[[int], float]:
    """The user's function of the round, every value of which is looked at."""
    theta = rule.theta
    if theta is None:
        raise UserMistake("training.step_rule is 'own', but has no theta; give it a function of the round, in Python")

    def checked(t: int) -> float:
        value = theta(t)
        if not (isinstance(value, float | int | np.number) and np.isfinite(value) and value >= 0):
            raise UserMistake(
                f"training.step_rule.theta gives {value!r} for round {t}, but must give a finite number, at least 0"
            )
        return float(value)

    return checked
