"""FedAvg rounds in plain PyTorch: the same clients and the same local loop as the other sides have."""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

from cases import CLIENTS, SAMPLES, image_set
from standing_by import Answer, serve
from torch_loop import Weights, client_update, weights

Rows = tuple[torch.Tensor, torch.Tensor]


@cache
def everyones_rows() -> list[Rows]:
    """Images and labels, dealt evenly; made once in a process."""
    images, labels = (torch.from_numpy(column) for column in image_set(SAMPLES))
    images, labels, each = images.permute(0, 3, 1, 2).contiguous(), labels.long(), SAMPLES // CLIENTS
    return [(images[k : k + each], labels[k : k + each]) for k in range(0, SAMPLES, each)]


def update(start: Weights, rows: Rows) -> Weights:
    """One client's ten steps."""
    return client_update("mlp", "plain", start, *rows)


def fedavg(rows: list[Rows], pool: ThreadPoolExecutor | None) -> Callable[[Weights], Weights]:
    """A round: every client's steps, and the mean of what they found."""

    def one_round(start: Weights) -> Weights:
        work = map if pool is None else pool.map
        found = list(work(lambda mine: update(start, mine), rows))
        with torch.no_grad():
            return [torch.stack(same).mean(0).requires_grad_() for same in zip(*found, strict=True)]

    return one_round


def main() -> None:
    """Stand by."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds, rows, start = parser.parse_args().rounds, everyones_rows(), weights("mlp")
    ways = {1: (1, None), 2: (2, None), 3: (1, ThreadPoolExecutor(2))}

    def timed(way: int, count: int) -> float:
        threads, pool = ways[way]
        torch.set_num_threads(threads)
        one_round, params, began = fedavg(rows, pool), start, time.perf_counter()
        for _ in range(count):
            params = one_round(params)
        return (time.perf_counter() - began) / count / CLIENTS

    tried = {way: min(timed(way, 1) for _ in range(3)) for way in ways}
    best = min(tried, key=lambda way: tried[way])

    def measure() -> Answer:
        return {"seconds": timed(best, rounds), "threads": ways[best][0], "workers": 1 if ways[best][1] is None else 2}

    serve(measure)


if __name__ == "__main__":
    main()
