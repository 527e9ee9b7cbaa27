"""FedAvg rounds by Apple's pfl: its simulated backend in one process, its own loop over PyTorch.

Images are floats before anything is measured, where the other sides keep bytes and scale what they draw.
"""

import argparse
import logging
import time
from itertools import cycle
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn

from cases import BATCH, CLIENTS, LOCAL_STEPS, STEP_SIZE
from standing_by import Answer, serve
from torch_rounds import everyones_rows


class Net(nn.Module):
    """784-80-60-10 with ELU, and the loss that pfl asks a module for."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(784, 80), nn.ELU(), nn.Linear(80, 60), nn.ELU(), nn.Linear(60, 10)]
        self.layers = nn.Sequential(nn.Flatten(), *layers)

    def loss(self, x: torch.Tensor, y: torch.Tensor, **_: Any) -> torch.Tensor:
        """Cross-entropy."""
        return nn.functional.cross_entropy(self.layers(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, **_: Any) -> dict[str, Weighted]:
        """Asked for where a model is scored."""
        return {"loss": Weighted(float(self.loss(x, y).detach()), 1)}


class FirstRound(TrainingProcessCallback):
    """Looks at the clock after the first round, which pfl scores all clients in, before and after they learn."""

    ended = 0.0

    def after_central_iteration(self, aggregate: Any, model: Any, *, central_iteration: int) -> tuple[bool, Metrics]:
        """Go on."""
        self.ended = self.ended or time.perf_counter()
        return False, Metrics()


def rounds_of(rounds: int) -> Answer:
    """So many rounds with everybody, from a new model, after one that does not count."""
    net = Net()
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    asked, first = NNAlgorithmParams(1 + rounds, 10**9, CLIENTS, 0), FirstRound()
    steps = NNTrainHyperParams(
        local_num_epochs=None, local_num_steps=LOCAL_STEPS, local_learning_rate=STEP_SIZE, local_batch_size=BATCH["mlp"]
    )
    FederatedAveraging().run(asked, BACKEND, model, steps, callbacks=[first], send_metrics_to_platform=False)
    return {"seconds": (time.perf_counter() - first.ended) / rounds / CLIENTS}


def backend() -> SimulatedBackend:
    """Everybody's images, drawn in order."""
    rows = [Dataset((images.float().div(255), labels), user_id=str(k)) for k, (images, labels) in enumerate(ROWS)]
    users = [FederatedDataset(lambda k: rows[k], cycle(range(CLIENTS)).__next__) for _ in range(2)]
    return SimulatedBackend(*users)


def main() -> None:
    """Stand by with one or two threads, whichever was faster when tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    logging.disable(logging.INFO)
    tried = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        tried[threads] = min(rounds_of(1)["seconds"] for _ in range(3))
    best = min(tried, key=lambda threads: tried[threads])
    torch.set_num_threads(best)
    serve(lambda: {**rounds_of(rounds), "threads": best, "workers": 1})


ROWS = everyones_rows()
BACKEND = backend()

if __name__ == "__main__":
    main()
