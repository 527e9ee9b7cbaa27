"""The laws of the catalog hold where the loss is PyTorch's."""

import functools

import jax
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

import idiolect.torch  # noqa: E402
from idiolect import catalog, objectives  # noqa: E402
from idiolect.testing import objective_laws, protocol_laws  # noqa: E402
from idiolect.testing.comparing import Training  # noqa: E402
from idiolect.testing.server_runs import server_cell  # noqa: E402
from idiolect.testing.small_clients import CLIENTS  # noqa: E402

N, ROWS = 4, 20
CELLS = ["plain+asynchronous", "maml+synchronous", "moreau+buffered", "proximal+scaffold", "plain+local"]


def data(kind):
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((ROWS, 3)) for _ in range(N)]
    return [{"x": x.astype(kind), "y": (x @ rng.standard_normal(3) + k).astype(kind)} for k, x in enumerate(inputs)]


def loss(module, batch):
    return 0.5 * ((module(batch["x"]).squeeze(-1) - batch["y"]) ** 2).mean() + 0.1 * module[0].weight.square().sum()


def regression(kind=np.float32):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return idiolect.torch.problem(module.to(torch.float64 if kind == np.float64 else torch.float32), loss, data(kind))


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


@functools.cache
def cell(name):
    algorithm = catalog.algorithm(name, problem(), step_size=0.05, local_steps=3, batch_size=5)
    return server_cell(problem(), algorithm)


@pytest.mark.parametrize("name", CELLS)
def test_cells_with_a_server_obey_the_laws(name, workers):
    protocol_laws.runs_are_reproducible(cell(name), workers)
    protocol_laws.compiled_once(cell(name))
    protocol_laws.updates_keep_their_types(cell(name))


def test_checkpoints_go_on_and_clients_are_alike(workers):
    ready = cell("maml+synchronous")
    end = ready.run(workers)[-1]
    protocol_laws.checkpoints_go_on(ready, end, workers)
    protocol_laws.clients_are_alike(ready, end, workers)


@pytest.mark.parametrize("name", ["plain", "maml"])
def test_objectives_learn_without_a_server(name):
    objective_laws.runs_without_a_server(EXACT[name], problem(), Training())
