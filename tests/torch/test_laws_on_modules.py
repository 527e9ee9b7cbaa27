"""The laws of objectives hold where the derivatives are PyTorch's: they are slopes, and keep their types."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

from idiolect import objectives  # noqa: E402
from idiolect.testing import objective_laws  # noqa: E402
from idiolect.testing.small_clients import CLIENTS  # noqa: E402
from tests.torch.regressions import ROWS, regression  # noqa: E402


@functools.cache
def problem():
    return regression()


@pytest.fixture
def torch_client(monkeypatch):
    """A small client among those of the laws."""

    def client():
        kind = np.float64 if jax.config.jax_enable_x64 else np.float32
        made = regression(kind)
        return made.oracle(made.clients.train.shard(0), ROWS), made.init(jax.random.key(0))

    monkeypatch.setitem(CLIENTS, "torch", client)


EXACT = {
    "plain": objectives.plain(),
    "proximal": objectives.proximal(mu=0.5),
    "maml": objectives.maml(steps=2, step_size=0.05, batches="shared"),
    "moreau": objectives.moreau(lambda_=20.0, accuracy=1e-10, iterations=200),
}


@pytest.mark.parametrize("name", EXACT)
def test_gradients_are_slopes_and_types_are_kept(name, torch_client):
    objective_laws.everything_keeps_its_type(EXACT[name], "torch")
    objective_laws.gradient_is_the_slope(EXACT[name], "torch")
    objective_laws.keys_name_what_is_drawn(EXACT[name], problem())
