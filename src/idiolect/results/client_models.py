"""The models of a finished cell, client by client, from the run's folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import Algorithm, Compressed, Params, Peer, Problem, PyTree
from idiolect.engines import Snapshot, prepare
from idiolect.engines.simulator.server_program import chosen_model
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import Adapter, adapter, own_model
from idiolect.experiments.building import build_algorithm, build_problem
from idiolect.experiments.evaluation_plan import plan_evaluation
from idiolect.experiments.value import Experiment
from idiolect.trees import fill


class CellModels(NamedTuple):
    """One algorithm on one seed of a run: its problem, and the models of its clients at the end."""

    label: str
    seed: int
    problem: Problem
    snapshot: Snapshot
    adapt: Adapter  # compiled once for all clients

    def compressed(self, client: int) -> Compressed:
        """The model that a client would use, with its levels if it has any."""
        if client not in range(self.problem.clients.total):
            raise UserMistake(f"client is {client!r}, but the run has clients 0 to {self.problem.clients.total - 1}")
        return own_model(self.adapt, self.problem.clients, self.snapshot, self.seed, client)


def open_models(
    experiment: Experiment, label: str, seed: int, tensors: Mapping[str, np.ndarray], data_dir: Path | None = None
) -> CellModels:
    """The models of a cell from its saved parameters; the experiment must be one that can be built."""
    problem = build_problem(experiment, seed, data_dir)
    algorithm = build_algorithm(experiment, experiment.lines[experiment.labels.index(label)], problem)
    adapt = adapter(problem, algorithm.objective, plan_evaluation(experiment).budget)
    return CellModels(label, seed, problem, _snapshot(problem, algorithm, seed, tensors), adapt)


def _snapshot(problem: Problem, algorithm: Algorithm, seed: int, tensors: Mapping[str, np.ndarray]) -> Snapshot:
    """The end of the run, as the engine showed it. Without a server, every agent is taken to hold the average."""
    objective, key = algorithm.objective, jax.random.key(seed)
    shapes = jax.eval_shape(lambda key: objective.shared(problem.init(key)), key)
    params, protocol = fill("server", shapes, tensors), algorithm.protocol
    if isinstance(protocol, Peer):

        def kept(client: int) -> PyTree:
            return _filled(client, objective.begin(params, client, key), tensors)

        return Snapshot(0.0, 0, params, lambda client: params, {}, kept, {})
    program = prepare(problem, algorithm)
    server, work = protocol.server, program.work
    offer = server.offer(server.init(params, len(problem.clients.participating)))
    if work.choose is not None:
        offer = fill("groups", offer, tensors)

    def state(client: int) -> PyTree:
        return _filled(client, work.init(offer, client, key), tensors)

    def model(client: int) -> Params:
        return chosen_model(program, state(client), offer, problem.clients.adapt.shard(client), key)

    return Snapshot(0.0, 0, params, model, {}, lambda client: work.own(state(client)), {})


def _filled(client: int, fresh: PyTree, tensors: Mapping[str, np.ndarray]) -> PyTree:
    """What was saved of a client; what it would begin with, if nothing was."""
    prefix = f"client{client}"
    saved = any(name == prefix or name.startswith((f"{prefix}[", f"{prefix}.")) for name in tensors)
    return fill(prefix, fresh, tensors) if saved else fresh
