"""FedAvg rounds by Flower's simulation: its server, strategy, messages and workers, plain PyTorch in its clients.

The app on the server runs for as long as it is asked for more rounds; so workers are started, and have everybody's
images, before anything is measured.
"""

import argparse
import logging
import os
import time

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from cases import CLIENTS
from standing_by import Answer, serve
from torch_loop import Weights, weights
from torch_rounds import everyones_rows, update

CORES = len(os.sched_getaffinity(0))


def named(params: Weights) -> dict[str, torch.Tensor]:
    """As a state dict, in order."""
    return {f"{place:02d}": leaf.detach() for place, leaf in enumerate(params)}


def train(message: Message, context: Context) -> Message:
    """A client's turn: ten steps of the same loop that all sides have."""
    torch.set_num_threads(1)  # as many workers as cores
    rows = everyones_rows()[int(context.node_config["partition-id"])]
    start = [leaf.requires_grad_() for _, leaf in sorted(message.content["arrays"].to_torch_state_dict().items())]
    found = ArrayRecord(named(update(start, rows)))
    weight = MetricRecord({"num-examples": len(rows[1])})
    return Message(content=RecordDict({"arrays": found, "metrics": weight}), reply_to=message)


def server(rounds: int) -> ServerApp:
    """Runs rounds whenever a line comes in."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        """Everybody in every round, and nothing scored."""
        everyone = {"min_train_nodes": CLIENTS, "min_available_nodes": CLIENTS}
        strategy, start = FedAvg(fraction_evaluate=0.0, **everyone), ArrayRecord(named(weights("mlp")))

        def measure() -> Answer:
            began = time.perf_counter()
            ended = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds)
            seconds = (time.perf_counter() - began) / rounds / CLIENTS
            assert len(ended.train_metrics_clientapp) == rounds, "a round is missing"
            return {"seconds": seconds, "workers": CORES, "threads": 1}

        measure()
        serve(measure)

    return app


def main() -> None:
    """Stand by."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds, client = parser.parse_args().rounds, ClientApp()
    client.train()(train)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": CORES, "log_to_driver": False}}
    run_simulation(server(rounds), client, CLIENTS, backend_config=resources)


if __name__ == "__main__":
    main()
