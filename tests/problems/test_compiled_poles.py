"""The compiled cart with a pole against gymnasium's own, state by state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect.problems.worlds.compiled_poles import compiled_pole, moved_by

gymnasium = pytest.importorskip("gymnasium")


@pytest.mark.parametrize("length", [0.3, 1.0, 10.0])
def test_steps_and_the_fall_are_gymnasium_s(length):
    from idiolect.problems.worlds.poles import cart_with_pole

    world, rng, move = cart_with_pole(np.array([length])), np.random.default_rng(0), jax.jit(moved_by)
    environment, task = compiled_pole(horizon=400), jnp.array([length], jnp.float32)
    step = jax.jit(lambda state, action: environment.step(task, state, action, jax.random.key(0)))
    for episode in range(4):
        seen, _ = world.reset(seed=episode)
        state, done, lived = (jnp.asarray(seen), jnp.asarray(False)), False, 0
        while not done and lived < 400:
            action = int(rng.integers(2)) if rng.random() < 0.7 else int(seen[2] > 0)
            before = world.state
            seen, reward, done, _, _ = world.step(action)
            np.testing.assert_allclose(move(jnp.asarray(before, jnp.float32), action, length), seen, atol=2e-5)
            state, earned = step(state, action)
            state, lived = (jnp.asarray(seen), state[1]), lived + 1
            assert (float(earned), bool(state[1])) == (reward, done)
        assert done
        after, earned = step(state, 0)
        assert float(earned) == 0
        np.testing.assert_array_equal(after[0], state[0])


def test_episodes_start_in_gymnasium_s_box_and_differ():
    keys = jax.random.split(jax.random.key(3), 500)
    starts = np.asarray(jax.vmap(lambda key: compiled_pole(5).reset(jnp.ones(1), key)[0])(keys))
    assert np.abs(starts).max() <= 0.05
    np.testing.assert_allclose(starts.mean(0), 0, atol=0.006)
    np.testing.assert_allclose(starts.std(0), 0.05 / np.sqrt(3), rtol=0.1)
