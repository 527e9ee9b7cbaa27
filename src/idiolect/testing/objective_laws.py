"""The laws of objectives, each a function, and `check_objective`, which checks them all."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from idiolect.contracts import Algorithm, Compressed, Info, Objective, Oracle, Params, Problem, PyTree, Scalar
from idiolect.engines import Workers
from idiolect.protocols import asynchronous, running_sum
from idiolect.testing import peer_laws, protocol_laws
from idiolect.testing.comparing import Training, agree, apart, difference, made_from, require, same_bytes, works
from idiolect.testing.peer_runs import BOUNDED, a_lane, peer_program
from idiolect.testing.server_runs import HORIZON, mean_loss, server_cell
from idiolect.testing.small_clients import CLIENTS, a_direction, noisy_quadratics

_KEY_DATA = 7
_WIDTH = 1e-5  # of a finite difference, in 64 bits
_SLOPES = 3  # directions in which a slope is measured
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6  # how far a slope may be from the gradient
_ROUNDS = 15  # without a server


def check_objective(
    objective: Objective | Callable[..., Objective],
    *,
    exact: bool = True,
    learns: bool = True,
    training: Training = Training(),
    **options: Any,
) -> None:
    """Check the laws that every objective obeys, on small clients of several kinds.

    Gradients, models and what clients keep have the structure, shapes and types that they should, in 32 and in 64 bits;
    a finite `loss` is reported; the same key gives the same result and another key another one, one at a time or many
    at once; the gradient is the slope of the value; and clients learn with a server and without one, with the same
    results on the fast engine and on the stepwise one.

    Args:
        objective: One's own objective, or the factory that makes it.
        exact: Whether the gradient must be the slope of the value. Switch it off for an objective that approximates
            its gradient on purpose, such as first-order MAML, or that solves an inner problem loosely. It is never
            asked of objectives that keep something on the client, which moves with every gradient.
        learns: Whether the loss must fall. Switch it off for an objective that is not meant to lower it by itself.
        training: How clients descend.
        options: Of the factory.

    Raises:
        AssertionError: A law is broken; the sentence says which, and by how much.
        UserMistake: There is nothing to check, or the objective refuses the problem.

    Example:
        >>> from idiolect import objectives
        >>> from idiolect.testing import check_objective
        >>> check_objective(objectives.proximal, mu=0.5)
    """
    made: Objective = made_from(Objective, objective, options)
    for client in CLIENTS:
        everything_keeps_its_type(made, client)
    problem = noisy_quadratics(noise=0.5, kind=np.float32)
    made.check(problem.known)
    keys_name_what_is_drawn(made, problem)
    if exact and is_stateless(made):
        for client in CLIENTS:
            gradient_is_the_slope(made, client)
    runs_with_a_server(made, problem, training, learns=learns)
    runs_without_a_server(made, noisy_quadratics(noise=0.5), training, learns=learns)


def is_stateless(objective: Objective) -> bool:
    """Does it keep nothing on the client?"""
    return not jax.tree.leaves(objective.begin(CLIENTS["quadratic"]()[1], 0, jax.random.key(0)))


def everything_keeps_its_type(objective: Objective, client: str) -> None:
    """Gradient, own and model keep structure, shapes and types: in 32 bits, in 64, and as agents without a server.

    Those learn in 32 bits where 64 are enabled.
    """
    for made_in_64, run_in_64, where in (
        (False, False, "32 bits"),
        (True, True, "64 bits"),
        (False, True, "32 bits where 64 are enabled"),
    ):
        with jax.enable_x64(made_in_64):
            oracle, params = CLIENTS[client]()
            own = objective.begin(params, 0, jax.random.key(0))
        with jax.enable_x64(run_in_64):
            _check_types(
                objective, oracle, own, params, f"on the client {client}, in {where},", run_in_64 == made_in_64
            )


def _check_types(objective: Objective, oracle: Oracle, own: PyTree, params: Params, where: str, alone: bool) -> None:
    """`alone`: the engine does not bring what is kept back to its types, so that the objective must."""
    law, key = "gradient and adaptation keep structure, shapes and types", jax.random.key(_KEY_DATA)

    def value_gradient_and_model(own: PyTree, params: Params) -> tuple[Scalar, tuple[PyTree, Params, Info], Compressed]:
        gradient = objective.gradient(oracle, own, params, params, key)
        return objective.value(oracle, own, params, params, key), gradient, objective.adapt(oracle, own, params, key)

    value, (kept, grads, info), model = works(
        "objectives can be compiled",
        f"the objective {where}",
        lambda: jax.eval_shape(value_gradient_and_model, own, params),
    )
    require(value.shape == (), law, f"{where} the value has the shape {value.shape} and is not one number")
    for what, tree in (("gradient", grads), ("adapted model", model.params), ("model before rounding", model.weights)):
        wrong = difference(tree, params)
        require(not wrong, law, f"{where} the {what} {wrong}")
    if alone:
        wrong = difference(kept, own)
        require(not wrong, law, f"{where} what the client keeps {wrong}")
    _check_report(info, where)


def _check_report(info: Any, where: str) -> None:
    law = "reports contain a finite loss"
    require(isinstance(info, dict) and "loss" in info, law, f"{where} the reports are {info!r}, without a loss")
    for name, number in info.items():
        require(
            number.shape == (), law, f"{where} the report {name} has the shape {number.shape} and is not one number"
        )


def keys_name_what_is_drawn(objective: Objective, problem: Problem) -> None:
    """The same key gives the same result, another key another one; compiled, and mapped over many keys."""
    oracle = problem.oracle(problem.clients.train.shard(0), 5)
    params = problem.init(jax.random.key(0))
    own = objective.begin(params, 0, jax.random.key(0))

    def step(key: jax.Array) -> tuple[PyTree, Params, Info]:
        return objective.gradient(oracle, own, params, params, key)

    keys = jax.random.split(jax.random.key(_KEY_DATA), 2)
    first, again = (
        works("objectives can be compiled", "the gradient", lambda: jax.jit(lambda key: step(key))(keys[0]))
        for _ in range(2)  # each compiled anew, as randomness that is no key's would be drawn then
    )
    loss = float(first[2]["loss"])
    require(np.isfinite(loss), "reports contain a finite loss", f"on a small quadratic the loss is {loss}")
    require(
        same_bytes(first, again), "same key, same result", f"two calls with one key differ by {apart(first, again):.3g}"
    )
    many = works("objectives can be mapped over clients", "jax.vmap", lambda: jax.jit(jax.vmap(step))(keys))
    one, other = (jax.tree.map(operator.itemgetter(k), many) for k in (0, 1))
    require(
        agree(one, first, 1e-4),
        "objectives can be mapped over clients",
        f"one of many clients gets what differs by {apart(one, first):.3g} from what it gets alone",
    )
    require(
        not same_bytes(one[:2], other[:2]),
        "different batches differ",
        "two keys give the same gradient, though the loss they name is not the same",
    )


def gradient_is_the_slope(objective: Objective, client: str) -> None:
    """The gradient matches finite differences of the value, in 64 bits and away from the received model."""
    with jax.enable_x64(True):
        oracle, params = CLIENTS[client]()
        received, key = a_direction(params, 5), jax.random.key(_KEY_DATA)
        own = objective.begin(params, 0, jax.random.key(0))

        def value(point: Params) -> Scalar:
            return objective.value(oracle, own, point, received, key)

        def along(direction: Params) -> Scalar:
            ahead, behind = (value(optax.tree.add_scale(params, way * _WIDTH, direction)) for way in (1, -1))
            return (ahead - behind) / (2 * _WIDTH)

        directions = [a_direction(params, seed) for seed in range(_SLOPES)]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *directions)

        @jax.jit
        def both() -> tuple[Params, Info, jax.Array]:
            _, grads, info = objective.gradient(oracle, own, params, received, key)
            return grads, info, jax.vmap(along)(stacked)

        grads, info, slopes = works("objectives can be compiled", "value and gradient", both)
        told = np.array([float(optax.tree.vdot(grads, direction)) for direction in directions])
        slopes = np.asarray(slopes)
    loss = float(info["loss"])
    require(np.isfinite(loss), "reports contain a finite loss", f"on the client {client} the loss is {loss}")
    gap, allowed = np.abs(told - slopes), _ABSOLUTE + _RELATIVE * np.abs(slopes)
    worst = int(np.argmax(np.where(np.isfinite(gap), gap / allowed, np.inf)))
    require(
        bool((gap <= allowed).all()),
        "the gradient is the slope of the value",
        f"on the client {client} the value rises by {slopes[worst]:.6g} in a direction in which the gradient says "
        f"{told[worst]:.6g}",
    )


def runs_with_a_server(objective: Objective, problem: Problem, training: Training, *, learns: bool = True) -> None:
    """Clients learn under an asynchronous server, to the same bytes on both engines."""
    cell = server_cell(problem, Algorithm("yours+asynchronous", objective, asynchronous(), *training))
    protocol_laws.updates_keep_their_types(cell)
    with Workers(2) as workers:
        start, end = cell.run(workers, times=(0.0, HORIZON))
        protocol_laws.engines_agree(cell, end)
    if learns:
        protocol_laws.falls(cell.name, cell.loss(start), cell.loss(end))


def runs_without_a_server(objective: Objective, problem: Problem, training: Training, *, learns: bool = True) -> None:
    """Agents learn by running sums though messages are lost, with the same numbers on both engines."""
    peer = running_sum()
    algorithm = Algorithm("yours+running_sum", objective, peer, *training)
    lane = a_lane(problem, BOUNDED, rounds=_ROUNDS)
    with Workers(1) as workers:
        agents = peer_laws.engines_agree(problem, peer_program(problem, algorithm), [lane], workers)
    if learns:
        with jax.enable_x64(True):
            first = problem.init(jax.random.key(0))
            before = mean_loss(
                problem, objective, lambda i: first, lambda i: objective.begin(first, i, jax.random.key(0))
            )
            after = mean_loss(problem, objective, lambda i: peer.read(agents[i].state), lambda i: agents[i].own)
        protocol_laws.falls(algorithm.name, before, after)
