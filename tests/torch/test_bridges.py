"""Both bridges and a hand-written JAX twin agree: same weights, same batches, many local steps."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

from idiolect import objectives  # noqa: E402
from idiolect.contracts import Algorithm  # noqa: E402
from idiolect.engines.learner import learner  # noqa: E402
from idiolect.protocols import asynchronous  # noqa: E402
from tests.torch.twins import TWINS, jax_problem, torch_problem  # noqa: E402

STEPS = 50
OBJECTIVES = {
    "plain": objectives.plain(),
    "maml": objectives.maml(steps=1, step_size=0.05, derivative="exact"),
    "moreau": objectives.moreau(lambda_=15.0, iterations=5),
}


@functools.cache
def reached(model: str, way: str, objective: str):
    """The parameters after many local steps of a client, and the losses on the way."""
    make, forward = TWINS[model]
    problem = jax_problem(make(), forward) if way == "jax" else torch_problem(make(), bridge=way)
    mine = Algorithm("mine", OBJECTIVES[objective], asynchronous(), local_steps=STEPS, step_size=0.02, batch_size=8)
    client, start = learner(problem, mine), problem.init(jax.random.key(0))
    run = jax.jit(lambda params, key: client.descend((), params, None, problem.clients.train.shard(0), key))
    _, params, info = run(start, jax.random.key(3))
    return {name: np.asarray(leaf) for name, leaf in params.items()}, np.asarray(info["loss"])


@pytest.mark.parametrize("way", ["call", "trace"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("model", TWINS)
def test_a_bridge_agrees_with_the_hand_written_twin(model, objective, way):
    if way == "trace":
        pytest.importorskip("torchax", reason="torchax is not installed: pip install 'idiolect[torchax]'")
    (wanted, losses), (found, seen) = reached(model, "jax", objective), reached(model, way, objective)
    assert losses[-5:].mean() < 0.9 * losses[:5].mean()
    np.testing.assert_allclose(seen, losses, atol=1e-5)
    for name, leaf in wanted.items():
        np.testing.assert_allclose(found[name], leaf, atol=1e-5, err_msg=name)
