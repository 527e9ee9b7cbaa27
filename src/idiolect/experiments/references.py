"""Scores to compare with that no algorithm here learns: the best there is, or a classic rival."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.evaluation.scoring import scored_split
from idiolect.experiments.building import build_problem, watch
from idiolect.experiments.schema import Recipe


def reference_record(recipe: Recipe, name: str, seed: int, data_dir: Path | None = None) -> dict[str, Any]:
    """What a reference scores for every participating client, on the rows that algorithms are scored on."""
    began = time.perf_counter()
    problem = build_problem(recipe, seed, data_dir)
    split = scored_split(problem.clients, watch(recipe).budget)
    rows = np.asarray(problem.references[name](split), float)
    clients = [client for client in problem.clients.participating if split.sizes[client]]
    scores = {
        metric.name: {client: float(row[client]) for client in clients}
        for metric, row in zip(problem.metrics, rows, strict=True)
    }
    return {"name": name, "seed": seed, "scores": scores, "seconds": time.perf_counter() - began}
