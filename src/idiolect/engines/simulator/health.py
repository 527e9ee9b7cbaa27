"""Checks that end a run early: it has diverged, or it was told to stop at the first bad update.

One client that sends what cannot be right is left out and counted. If more than half of the clients do, or nobody's
update could ever be used, it is the algorithm that diverges.
"""

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.engines.screening import AGAINST, NOT_FINITE, REASONS
from idiolect.engines.simulator.server_program import Program, ServerState
from idiolect.errors import Diverged, Refused
from idiolect.network.recorder import TimelineRecorder
from idiolect.network.timelines import Timeline


def check_health(
    server_state: ServerState,
    program: Program,
    table: Timeline | TimelineRecorder,
    crowd: int,
    *,
    over: bool = False,
) -> None:
    """Stop a run that has diverged among the `crowd` of clients in the table, or, by its rule, at the first refusal."""
    name, (turn, verdict, step, value) = program.algorithm.name, np.asarray(server_state.fault).tolist()
    if turn < 0:
        return
    number, out = int(turn), int(server_state.watch.refused.sum())
    client, time = table.client[number], table.arrived[number]
    if 2 * out > crowd or (over and not int(server_state.watch.accepted)):
        counted = verdict == NOT_FINITE and program.algorithm.epochs is None  # passes report as a whole
        where = f", local step {int(step) + 1} of {program.algorithm.local_steps}" if counted else ""
        gave = f"gave {value}" if verdict == NOT_FINITE else f"sent an update that is {_why(verdict)}"
        raise Diverged(
            f"{name} diverged: client {client}{where} in turn {number} at virtual time {time:.4g} {gave}, and the last "
            f"updates of {out} of {crowd} clients could not be used; {_hint(program, verdict)}"
        )
    if program.algorithm.screening.policy == "stop":
        raise Refused(
            f"{name} stopped, as screening.policy is 'stop': the update of client {client} in turn {number}, which "
            f"arrived at virtual time {time:.4g}, is {_why(verdict)}"
        )


def check_model(server_state: ServerState, program: Program, time: float) -> None:
    """Stop a run whose server holds a model that is not finite."""
    leaves = jax.tree.leaves(program.protocol.server.read(server_state.server))
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in leaves):
        hint = _hint(program) if time > 0 else "nothing was trained yet, so it began with such a model"
        raise Diverged(
            f"{program.algorithm.name} diverged: the server's model is not finite at virtual time {time:.4g}; {hint}"
        )


def _hint(program: Program, verdict: float = NOT_FINITE) -> str:
    if verdict == AGAINST and not program.algorithm.attacked:
        return f"a screening.least_cosine below {program.algorithm.screening.least_cosine:g} refuses fewer of them"
    return "some of its clients lie" if program.algorithm.attacked else "a smaller step size may help"


def _why(verdict: float) -> str:
    reason = REASONS[int(verdict)]
    return f"of a {reason}" if reason.startswith("wrong") else reason
