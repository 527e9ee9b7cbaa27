"""The models of a finished run, client by client, from its folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load

from idiolect.contracts import Algorithm, Compressed, Params, Problem, Protocol, PyTree
from idiolect.engines import Snapshot
from idiolect.engines.checkpointing import fill
from idiolect.engines.learner import learner
from idiolect.errors import UserMistake
from idiolect.evaluation.scoring import Adapter, adapter, own_model
from idiolect.experiments.building import build_algorithm, build_problem, watch
from idiolect.experiments.schema import Recipe
from idiolect.results.folder import RunFolder, saved_recipe


class CellModels(NamedTuple):
    """One algorithm on one seed of a run: its problem, what was recorded of every client, and their models."""

    recipe: Recipe
    label: str
    seed: int
    problem: Problem
    clients: dict[int, dict[str, Any]]
    snapshot: Snapshot
    adapt: Adapter  # compiled once for all clients

    def compressed(self, client: int) -> Compressed:
        """The model that a client would use, with its levels if it has any."""
        if client not in range(self.problem.clients.total):
            raise UserMistake(f"--client is {client}, but the run has clients 0 to {self.problem.clients.total - 1}")
        return own_model(self.adapt, self.problem.clients, self.snapshot, self.seed, client)


def open_run(path: Path, label: str | None, seed: int | None, data_dir: Path | None = None) -> CellModels:
    """The finished cell of a run folder: the one with this label and seed, or its only or first one."""
    recipe = saved_recipe(path)
    label, seed = _choose_label(recipe, label), recipe.seeds[0] if seed is None else seed
    folder = RunFolder(path, recipe)
    if seed not in recipe.seeds or not folder.has(label, seed):
        raise UserMistake(f"{path} has no finished run of {label} with seed {seed}; its seeds are {recipe.seeds}")
    problem = build_problem(recipe, seed, data_dir)
    table = recipe.algorithms[recipe.labels.index(label)]
    algorithm = build_algorithm(recipe, table, problem)
    tensors = _load(path / "params" / f"{label}-seed{seed}.safetensors")
    cell = next(cell for cell in folder.cells(recipe) if (cell["label"], cell["seed"]) == (label, seed))
    clients = {client["client"]: client for client in cell["clients"]}
    adapt = adapter(problem, algorithm.objective, watch(recipe).budget)
    return CellModels(recipe, label, seed, problem, clients, _snapshot(problem, algorithm, tensors), adapt)


def _choose_label(recipe: Recipe, label: str | None) -> str:
    if label is None and len(recipe.labels) == 1:
        return recipe.labels[0]
    if label not in recipe.labels:
        said = "is missing" if label is None else f"is '{label}'"
        raise UserMistake(f"--algorithm {said}; the run has {', '.join(recipe.labels)}")
    return label


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as reason:
        raise UserMistake(f"{path} cannot be read: {reason}") from None


def _snapshot(problem: Problem, algorithm: Algorithm, tensors: Mapping[str, np.ndarray]) -> Snapshot:
    """The end of the run, as the engine showed it. Without a server, every agent is taken to hold the average."""
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    params = fill("server", shapes, tensors)
    if not isinstance(algorithm.protocol, Protocol):
        return Snapshot(0.0, 0, params, lambda client: params, {}, lambda client: (), {})
    server, work = algorithm.protocol.server, algorithm.protocol.work(learner(problem, algorithm))
    offer = server.offer(server.init(params, len(problem.clients.participating)))

    def state(client: int) -> PyTree:
        fresh = work.init(offer, client)
        return fill(f"client{client}", fresh, tensors) if _has(f"client{client}", tensors) else fresh

    def model(client: int) -> Params:
        return work.model(state(client), offer)

    return Snapshot(0.0, 0, params, model, {}, lambda client: work.own(state(client)), {})


def _has(prefix: str, tensors: Mapping[str, np.ndarray]) -> bool:
    return any(name == prefix or name.startswith((f"{prefix}[", f"{prefix}.")) for name in tensors)
