"""PersA-FL's algorithms as its theorems have them: every update exactly tau late, the true gradient at every step.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Algorithms 1 and 2 under Assumption 1: the client of step t is
uniform and independent of all before, and worked on the server's model of step t - tau (of step 0 while t < tau). A
client can so have several updates under way, as the assumption allows.

Objectives, clients and server are the project's own functions. What differs between settings (tau, eta, alpha or nu) is
data, and so are the clients' samples: one compiled program runs all settings of an objective and a batch size, side by
side over seeds. Settings of one seed see the same clients and batches, so that they can be compared in pairs.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Algorithm, Key, Objective, Oracle, Params, Problem, Scalar, Shard
from idiolect.engines.learner import learner
from idiolect.objectives import maml, moreau, plain
from idiolect.problems.synthetic import robust_location
from idiolect.protocols import asynchronous

Option = Literal["plain", "maml", "moreau"]
BLOCK = 100  # steps whose sums are added up before they join the sums of all: single precision would lose them
HASTE = {
    "xla_llvm_disable_expensive_passes": True,
    "xla_backend_optimization_level": 1,
}  # how to compile for short runs

_CLIENTS, _DIMENSION, _SAMPLES = 5, 2, 20


class Lane(NamedTuple):
    """One setting; or, as arrays, the settings that run side by side."""

    staleness: int | np.ndarray | Scalar  # tau
    step_size: float | np.ndarray | Scalar  # eta
    knob: float | np.ndarray | Scalar  # alpha of MAML, nu of the Moreau envelope, nothing of the plain cost


class Program(NamedTuple):
    """What a compiled program is made for."""

    option: Option
    batch_size: int
    local_steps: int
    memory: int  # the largest tau
    smoothness: float  # L of every sample
    lambda_: float
    inner_step_size: float  # in 1 / lambda: the smaller, the nearer to nu is where the inner problem is left


class Measured(NamedTuple):
    """Of every seed (first axis) and setting (second axis)."""

    mean_square: np.ndarray | jax.Array  # (1/T) sum_t ||grad F(w^t)||^2
    third: np.ndarray | jax.Array  # the mean of grad F(w^t) over the third quarter of the run
    fourth: np.ndarray | jax.Array  # and over the last
    model: np.ndarray | jax.Array  # w^T


Run: TypeAlias = Callable[[jax.Array, jax.Array, Lane, jax.Array, int], Measured]


def places_of(smoothness: float, options: Mapping[str, Any]) -> tuple[Problem, np.ndarray]:
    """Clients of `robust_location` that all have as many training samples, and these: (client, sample, coordinate)."""
    sizes: dict[str, Any] = {"clients": _CLIENTS, "dimension": _DIMENSION, "samples": _SAMPLES}
    problem = robust_location(smoothness=smoothness, **sizes, **options)
    train = problem.clients.train
    rows = np.asarray(train.rows["place"])
    return problem, np.stack([rows[start:][:size] for start, size in zip(train.starts, train.sizes, strict=True)])


def objective_of(program: Program, knob: Any) -> Objective:
    """What the clients minimise; `knob` may be traced."""
    if program.option == "plain":
        return plain()
    if program.option == "maml":
        family = maml(steps=1).family
        assert family is not None
        return family.member({"steps": jnp.int32(1), "sizes": jnp.atleast_1d(knob)})
    lambda_ = program.lambda_
    rate = program.inner_step_size / lambda_
    return moreau(lambda_=lambda_, accuracy=knob, iterations=200, inner_step_size=rate)


def client_gradients(program: Program, knob: Any, places: jax.Array) -> Callable[[Params], Params]:
    """Grad F_i of every client: the objective on its whole data, where MAML's is (5), with an exact prox (7)."""
    exact, key = _exactly(program, knob), jax.random.key(0)

    def of_client(own: jax.Array, params: Params) -> Params:
        return exact.gradient(whole(program.smoothness, own), (), params, params, key)[1]

    return lambda params: jax.vmap(of_client, (0, None))(places, params)


def true_gradient(program: Program, knob: Any, places: jax.Array) -> Callable[[Params], Params]:
    """Grad F of the cost in question."""
    every = client_gradients(program, knob, places)
    return lambda params: every(params).mean(0)


@partial(jax.jit, static_argnums=0)
def true_value(program: Program, knob: Any, places: jax.Array, params: Params) -> Scalar:
    """F of the cost in question."""
    exact, key = _exactly(program, knob), jax.random.key(0)
    return jax.vmap(lambda own: exact.value(whole(program.smoothness, own), (), params, params, key))(places).mean()


@partial(jax.jit, static_argnums=0)
def stationary(program: Program, knob: Any, places: jax.Array) -> jax.Array:
    """Where descent on F from the middle of all samples comes to rest."""
    gradient = true_gradient(program, knob, places)
    rate = 0.5 / program.smoothness

    def step(_: Scalar, params: jax.Array) -> jax.Array:
        return params - rate * gradient(params)

    return jax.lax.fori_loop(0, 1000, step, places.mean((0, 1)))


def _exactly(program: Program, knob: Any) -> Objective:
    if program.option != "moreau":
        return objective_of(program, knob)
    # Inner curvatures lie between lambda - L/8 and lambda + L: with lambda = 8 L a step leaves an eighth of the error.
    return moreau(lambda_=program.lambda_, iterations=9, inner_step_size=1 / (program.lambda_ + program.smoothness))


def whole(smoothness: float, own: jax.Array) -> Oracle:
    """A client's f_i itself, whatever the key; the metric of these problems is their loss."""

    def cost(params: Params) -> Scalar:
        return template(smoothness).metric.score(params, {"place": own})

    return Oracle(
        value=lambda params, key: cost(params),
        gradient=lambda params, key: jax.value_and_grad(cost)(params),
        hessian_product=lambda params, vector, key: jax.jvp(jax.grad(cost), (params,), (vector,))[1],
    )


@cache
def compiled(program: Program, hasty: bool = False) -> Run:
    """(places, first model, lanes, keys, steps) -> what was measured; `steps` is T, a multiple of `BLOCK`.

    `hasty`: compile for short runs, without the passes that take most of the time.
    """

    def run(places: jax.Array, first: jax.Array, lane: Lane, key: Key, steps: Scalar) -> Measured:
        step, start = _server_step(program, places, first, lane, key, steps)

        def block(number: Scalar, state: _State) -> _State:
            fresh = state._replace(sums=jax.tree.map(jnp.zeros_like, state.sums))
            done, _ = jax.lax.scan(step, fresh, number * BLOCK + jnp.arange(BLOCK))
            return done._replace(sums=jax.tree.map(jnp.add, state.sums, done.sums))

        done = jax.lax.fori_loop(0, steps // BLOCK, block, start)
        squares, third, fourth = done.sums
        return Measured(squares / steps, 4 * third / steps, 4 * fourth / steps, done.model)

    over_lanes = jax.vmap(run, (None, None, 0, None, None))
    return jax.jit(jax.vmap(over_lanes, (None, None, None, 0, None)), compiler_options=HASTE if hasty else None)


class _State(NamedTuple):
    model: jax.Array
    recent: jax.Array  # the last models that the server offered: model t is in row t modulo the number of rows
    sums: tuple[jax.Array, jax.Array, jax.Array]  # of ||grad F||^2, and of grad F over the third and the last quarter


def _server_step(
    program: Program, places: jax.Array, first: jax.Array, lane: Lane, key: Key, steps: Scalar
) -> tuple[Callable[[_State, Scalar], tuple[_State, None]], _State]:
    """What happens between two models of the server, and the state before the first one."""
    clients, samples, dimension = places.shape
    rows, memory = {"place": places.reshape(-1, dimension)}, program.memory + 1
    protocol = asynchronous(beta=1.0)
    server = protocol.server
    objective = objective_of(program, lane.knob)
    step_size: Any = lane.step_size  # traced
    algorithm = Algorithm(program.option, objective, protocol, program.local_steps, step_size, program.batch_size)
    work = protocol.work(learner(template(program.smoothness), algorithm))
    gradient = true_gradient(program, lane.knob, places)

    def step(state: _State, t: Scalar) -> tuple[_State, None]:
        slope, quarter = gradient(server.read(state.model)), 4 * t // steps
        news = (slope**2).sum(), jnp.where(quarter == 2, slope, 0.0), jnp.where(quarter == 3, slope, 0.0)
        choice, turn = jax.random.split(jax.random.fold_in(key, t))
        client = (jax.random.bits(choice) % clients).astype(jnp.int32)  # Assumption 1, but for 1 part in 2^30
        shard = Shard(rows, client * samples, jnp.int32(samples))
        late = jnp.minimum(lane.staleness, t)
        offer = state.recent[(t - late) % memory]  # Alg. 2, l. 3, at step Omega(t)
        _, upload, _ = work.turn((), offer, shard, turn)
        model = server.absorb(state.model, upload, late)  # Alg. 1, l. 4
        recent = state.recent.at[(t + 1) % memory].set(server.offer(model))
        return _State(model, recent, jax.tree.map(jnp.add, state.sums, news)), None

    model = server.init(first, clients)
    recent = jnp.broadcast_to(server.offer(model), (memory, dimension))
    return step, _State(model, recent, (jnp.zeros(()), jnp.zeros(dimension), jnp.zeros(dimension)))


@cache
def template(smoothness: float) -> Problem:
    """A problem for its loss; which samples it has does not matter."""
    with jax.ensure_compile_time_eval():  # it may be asked for while a program is traced
        return robust_location(dimension=_DIMENSION, smoothness=smoothness)
