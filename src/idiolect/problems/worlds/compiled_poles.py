"""A cart with a pole as a compiled function: gymnasium's CartPole-v1, equation by equation, without gymnasium.

A. G. Barto, R. S. Sutton, C. W. Anderson. Neuronlike adaptive elements that can solve difficult learning control
problems. 1983, in the form of gymnasium's `CartPoleEnv` (Euler's method, 50 steps a second).

Deviations from gymnasium: single precision, and starts are drawn by JAX from the same box. Law: from the same state the
same action leads to the same place, to rounding.
"""

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Key, Scalar
from idiolect.errors import UserMistake
from idiolect.problems.worlds.environments import Environment, State, Task

GRAVITY, CART, POLE, FORCE, SECONDS = 9.8, 1.0, 0.1, 10.0, 0.02  # masses of cart and pole; seconds a step
FARTHEST, STEEPEST, START = 2.4, 12 * 2 * np.pi / 360, 0.05  # where an episode ends, and how far off it begins


def compiled_pole(horizon: int) -> Environment:
    """The world of a task, the length of a whole pole; a state is (x, x', theta, theta') and whether it fell."""
    if horizon < 1:
        raise UserMistake(f"problem.horizon is {horizon}, but must be at least 1")

    def reset(task: Task, key: Key) -> State:
        return jax.random.uniform(key, (4,), jnp.float32, -START, START), jnp.asarray(False)

    def step(task: Task, state: State, action: jax.Array, key: Key) -> tuple[State, Scalar]:
        place, over = state
        moved = moved_by(place, action, task[0])
        fell = (jnp.abs(moved[0]) > FARTHEST) | (jnp.abs(moved[2]) > STEEPEST)
        return (jnp.where(over, place, moved), over | fell), jnp.where(over, 0.0, 1.0)  # the step of the fall counts

    def best_rewards(task: Task, state: State) -> jax.Array:
        return jnp.ones(horizon)

    return Environment(reset, step, lambda task, state: state[0], best_rewards, _anything, horizon, 4, "discrete", 2)


def moved_by(place: jax.Array, action: jax.Array, length: jax.Array) -> jax.Array:
    """Where one step leads: 1 pushes to the right, 0 to the left."""
    _, speed, angle, turning = place
    half, total = length / 2, CART + POLE
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    pushed = (jnp.where(action == 1, FORCE, -FORCE) + POLE * half * turning**2 * sine) / total
    spin = (GRAVITY * sine - cosine * pushed) / (half * (4 / 3 - POLE * cosine**2 / total))
    pull = pushed - POLE * half * spin * cosine / total
    return place + SECONDS * jnp.stack([speed, pull, turning, spin])


def _anything(task: np.ndarray) -> None:
    """Every positive length can be posed, and `cartpole` sees to that."""
