"""Any gymnasium environment as one of ours: the same interface, but slower, since steps leave the compiled program.

A family of tasks is a function `make` from a task, an array of numbers, to an environment:

    def make(task: np.ndarray) -> gymnasium.Env: ...
    environment = gymnasium_environment(make, example=np.array([0.5]), horizon=200)

It must be deterministic: the same task, the same seed at `reset` and the same actions give the same episode, in a new
environment as in one that is reset (`check` tries a few steps of it). All tasks have the same spaces: actions are
`Discrete` or `Box`, observations `Discrete` (seen as a vector with a single 1) or `Box` (seen as one flat vector). An
action outside of its box counts as the nearest one inside. Who is done earns nothing more and sees the last observation
until the horizon.

The state on the compiled side is the history of the episode, and `EnvironmentPool` answers where it leads. Questions
are asked for a whole batch of trajectories at once. XLA hands larger arrays to a callback by way of its threads, which
may all be waiting for callbacks: with more than 100 KiB and as many callbacks as cores, programs were seen to hang
(jax 0.10.2; see also jax issue 24255). So no question is larger than `LARGEST`.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Key, Scalar
from idiolect.errors import UserMistake
from idiolect.problems.worlds.environment_pool import EnvironmentPool
from idiolect.problems.worlds.environments import Environment, State, Task
from idiolect.problems.worlds.gymnasium_spaces import Actions, Observations, actions, observations

if TYPE_CHECKING:
    from gymnasium import Env

LARGEST = 2**16  # bytes of one argument of a callback
_TRIED = 8  # steps of an episode in which a new task shows that it is deterministic


class Episode(NamedTuple):
    """All there is to know of an episode under way."""

    seed: jax.Array
    history: jax.Array  # all actions; zeros in the place of those to come
    steps: jax.Array
    seen: jax.Array
    done: jax.Array


def gymnasium_environment(
    make: Callable[[np.ndarray], "Env[Any, Any]"], *, example: np.ndarray, horizon: int, live: int = 1024
) -> Environment:
    """The environments that `make` builds from tasks like `example`, for episodes of at most `horizon` steps.

    Args:
        make: Builds a gymnasium environment from a task.
        example: A task.
        horizon: The most steps of an episode.
        live: Up to so many are kept. It should be as many as trajectories are under way at once, over all threads; with
            fewer, results are the same, but most episodes are played again from their start for every step.

    Returns:
        The environment, for `acting_problem`.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.worlds import gymnasium_environment
        >>> from idiolect.problems.worlds.poles import cart_with_pole
        >>> gymnasium_environment(cart_with_pole, example=np.ones(1, np.float32), horizon=20).features
        4
    """
    for field, given in (("horizon", horizon), ("live", live)):
        if given < 1:
            raise UserMistake(f"problem.{field} is {given}, but must be at least 1")
    first = make(np.asarray(example))
    acts, sees = actions(first.action_space), observations(first.observation_space)
    _check_size(np.asarray(example), acts, horizon)
    arrive = _batched(EnvironmentPool(make, acts.decode, horizon, live), sees)

    def reset(task: Task, key: Key) -> State:
        seed, history = jax.random.bits(key), jnp.zeros((horizon, *acts.shape), acts.kind)
        seen, _, done = arrive(task, seed, history, jnp.int32(0))
        return Episode(seed, history, jnp.int32(0), seen, done)

    def step(task: Task, state: State, action: jax.Array, key: Key) -> tuple[State, Scalar]:
        # The key is not needed: an episode's chances are in its seed.
        history = state.history.at[state.steps].set(action.astype(acts.kind))
        seen, reward, done = arrive(task, state.seed, history, jnp.where(state.done, _OVER, state.steps + 1))
        seen = jnp.where(state.done, state.seen, seen)
        return Episode(state.seed, history, state.steps + 1, seen, state.done | done), reward

    def check(task: np.ndarray) -> None:
        world = make(task)
        if (world.action_space, world.observation_space) != (first.action_space, first.observation_space):
            raise UserMistake(
                f"the task {task.tolist()} has the spaces {world.action_space} and {world.observation_space}, but all "
                f"tasks need those of the first one, {first.action_space} and {first.observation_space}"
            )
        plays = [_play(each, acts, sees, min(horizon, _TRIED)) for each in (world, world, make(task))]
        if not all(np.array_equal(plays[0], play, equal_nan=True) for play in plays[1:]):
            raise UserMistake(
                f"the environment of the task {task.tolist()} went two ways from the same seed and with the same "
                "actions, but must be deterministic once `reset` has its seed"
            )

    kind, size = acts.name, acts.size
    return Environment(reset, step, lambda task, state: state.seen, None, check, horizon, sees.size, kind, size)


_OVER = -1  # instead of a number of actions: the episode has ended, and there is nothing to ask


def _batched(worlds: EnvironmentPool, sees: Observations) -> Callable[..., tuple[jax.Array, jax.Array, jax.Array]]:
    """(task, seed, history, count) -> observation, reward, done; all trajectories of a batch in few callbacks."""

    def blank(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros((count, sees.size), np.float32), np.zeros(count, np.float32), np.zeros(count, bool)

    # Inside of a callback there must be nothing of JAX: NumPy arrays in, NumPy arrays out.
    def ask_host(*given: jax.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tasks, seeds, histories, counts = map(np.asarray, given)
        seen, rewards, done = blank(len(counts))
        for row in np.flatnonzero(counts != _OVER):
            answer = worlds.arrive(tasks[row], int(seeds[row]), histories[row, : counts[row]])
            seen[row], rewards[row], done[row] = sees.encode(answer.seen), answer.reward, answer.done
        return seen, rewards, done

    def ask_all(*rows: jax.Array) -> tuple[jax.Array, ...]:
        nothing = blank(len(rows[0]))
        return jax.lax.cond(
            (rows[-1] == _OVER).all(),
            lambda *rows: jax.tree.map(jnp.asarray, nothing),
            lambda *rows: jax.pure_callback(ask_host, nothing, *rows),
            *rows,
        )

    @jax.custom_batching.custom_vmap
    def ask(*rows: jax.Array) -> tuple[jax.Array, ...]:
        together = LARGEST // max(row[0].nbytes for row in rows)
        if len(rows[0]) <= together:
            return ask_all(*rows)

        def ask_one(row: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            return tuple(answer[0] for answer in ask(*(each[None] for each in row)))

        return jax.lax.map(ask_one, rows, batch_size=together)

    @ask.def_vmap
    def _merge(size: int, batched: list[bool], *rows: jax.Array) -> tuple[tuple[jax.Array, ...], tuple[bool, ...]]:
        wide = [row if b else jnp.broadcast_to(row, (size, *row.shape)) for row, b in zip(rows, batched, strict=True)]
        answers = ask(*(row.reshape(-1, *row.shape[2:]) for row in wide))
        return tuple(answer.reshape(size, -1, *answer.shape[1:]) for answer in answers), (True,) * len(answers)

    def arrive(*row: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        seen, reward, done = ask(*(jax.lax.stop_gradient(each)[None] for each in row))
        return seen[0], reward[0], done[0]

    return arrive


def _check_size(example: np.ndarray, acts: Actions, horizon: int) -> None:
    each = math.prod(acts.shape) * acts.kind.itemsize
    if horizon * each > LARGEST:
        raise UserMistake(
            f"problem.horizon is {horizon}, but an action of {each} bytes allows for {LARGEST // each} steps at most"
        )
    if example.nbytes > LARGEST:
        raise UserMistake(f"a task has {example.nbytes} bytes, but may have {LARGEST} at most")


def _play(world: "Env[Any, Any]", acts: Actions, sees: Observations, steps: int) -> np.ndarray:
    """What is seen and earned in the first steps of an episode with some fixed actions."""
    rng = np.random.default_rng(0)
    rows = [[*sees.encode(world.reset(seed=0)[0]), 0.0]]
    for _ in range(steps):
        drawn = rng.integers(acts.size) if acts.name == "discrete" else rng.uniform(-1, 1, acts.shape)
        seen, reward, terminated, truncated, _ = world.step(acts.decode(np.asarray(drawn)))
        rows.append([*sees.encode(seen), float(reward)])
        if terminated or truncated:
            break
    return np.array(rows)
