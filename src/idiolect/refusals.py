"""Refuses algorithms that cannot work on a problem, in one sentence, and passes on what theory would warn of."""

from typing import Any

import jax

from idiolect.contracts import Algorithm, Key, Learner, Peer, Problem, Protocol, PyTree
from idiolect.errors import UserMistake


def check_algorithm(made: Algorithm, problem: Problem) -> None:
    """Refuse what cannot work on a problem."""
    if not isinstance(made.protocol, Peer) and made.step_rule.name == "horizon":
        raise UserMistake(
            f"training.step_rule is 'horizon', which is for a known number of rounds without a server, but {made.name} "
            "has one; take decay or decreasing"
        )
    if not isinstance(made.protocol, Peer) and problem.clients.start_models is not None:
        raise UserMistake(
            f"clients.start_models is given, but {made.name} has a server, which starts with one model; leave it out"
        )
    for field in ("local_steps", "step_size", "batch_size", "epochs"):
        if not (getattr(made, field) is None or getattr(made, field) > 0):
            raise UserMistake(f"training.{field} is {getattr(made, field)}, but must be positive")
    made.objective.check(problem.known)
    if isinstance(made.protocol, Protocol):  # which may refuse how far clients go; none of them goes anywhere here
        steps = made.local_steps if made.epochs is None else None
        still = Learner(made.objective.begin, _still, _still, _still, _still, _still, _still, steps, made.step_size)
        made.protocol.work(still)
    # A problem without the layers that an objective asks for is refused here.

    def begin(key: Key) -> PyTree:
        return made.objective.begin(made.objective.shared(problem.init(key)), 0, key)

    jax.eval_shape(begin, jax.random.key(0))


def advice_on(made: Algorithm, problem: Problem) -> list[str]:
    """What theory would warn of."""
    return [f"{made.name}: {line}" for line in made.objective.check(problem.known)]


def _still(*given: Any) -> Any:
    raise AssertionError("a protocol is made without a client's work")
