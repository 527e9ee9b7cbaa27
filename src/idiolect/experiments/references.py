"""Reference scores that no algorithm here learns: the best there is, or a classic rival."""

import time

import numpy as np

from idiolect.contracts import Problem
from idiolect.evaluation.scoring import scored_split
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.records import ReferenceRecord
from idiolect.experiments.value import Experiment


def score_reference(experiment: Experiment, problem: Problem, name: str, seed: int) -> ReferenceRecord:
    """What a reference scores for every participating client, on the rows that algorithms are scored on."""
    began = time.perf_counter()
    split = scored_split(problem.clients, plan_evaluation(experiment).budget)
    rows = np.asarray(problem.references[name](split), float)
    clients = [client for client in problem.clients.participating if split.sizes[client]]
    scores = {
        metric.name: {client: float(row[client]) for client in clients}
        for metric, row in zip(problem.metrics, rows, strict=True)
    }
    return ReferenceRecord(name, seed, scores, time.perf_counter() - began)
