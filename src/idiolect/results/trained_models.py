"""Models that runs begin with, as the folder of the run that trained them has them. Nothing is unpickled."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect import catalog
from idiolect.contracts import Params, Problem
from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import Start
from idiolect.experiments.value import Experiment
from idiolect.results.folder import RunFolder
from idiolect.results.run import open_run
from idiolect.trees import names_of


class TrainedModels(NamedTuple):
    """The models that the server of one algorithm held at the end of a run, by seed."""

    path: Path
    label: str

    def digest(self, seed: int) -> str:
        """Of the file with a seed's model."""
        return hashlib.sha256(self._file(seed).read_bytes()).hexdigest()[:16]

    def model(self, seed: int, problem: Problem) -> Params:
        """A seed's model; a sentence if it is that of another problem."""
        tensors = RunFolder(self.path).tensors(self.label, seed)
        found = {name: tensor for name, tensor in tensors.items() if name.startswith("server")}
        return fitting(found, problem, f"start.run {self.path}")

    def _file(self, seed: int) -> Path:
        file = self.path / "params" / f"{self.label}-seed{seed}.safetensors"
        if not RunFolder(self.path).has(self.label, seed) or not file.is_file():
            raise UserMistake(
                f"start.run {self.path} has no finished {self.label} on seed {seed}, with which this run would begin"
            )
        return file


def fitting(leaves: dict[str, np.ndarray] | Params, problem: Problem, where: str) -> Params:
    """A model with which a problem's training can begin, from the leaves of one under the names of a file."""
    shapes = jax.eval_shape(problem.init, jax.random.key(0))
    wanted = {name: leaf.shape for name, leaf in names_of("server", shapes).items()}
    given = {name: np.shape(leaf) for name, leaf in leaves.items()}
    if given != wanted:
        name = next(name for name in [*wanted, *given] if wanted.get(name) != given.get(name))
        layer = name.removeprefix("server") or "its parameters"
        raise UserMistake(
            f"{where} has {_told(given.get(name))} for {layer}, but the model of {problem.name} has "
            f"{_told(wanted.get(name))}; begin with a model of the same shape"
        )
    values = [jnp.asarray(leaves[name], leaf.dtype) for name, leaf in names_of("server", shapes).items()]
    return jax.tree.unflatten(jax.tree.structure(shapes), values)


def _told(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else f"shape {tuple(shape)}"


def open_trained(start: Start) -> TrainedModels:
    """The models that `start.run` names; a folder that has none is refused in a sentence."""
    path = Path(start.run or "")
    saved = open_run(path).experiment  # its names are checked there, and lead to no other folder
    lines = {label: line.name for label, line in zip(saved.labels, saved.lines, strict=True)}
    if start.label is None and len(lines) > 1:
        raise UserMistake(f"start.run {path} has {', '.join(lines)}; say with start.label which of them to begin with")
    label = start.label or next(iter(lines))
    if label not in lines:
        raise UserMistake(f"start.label is '{label}', but start.run {path} has {', '.join(lines)}")
    name = lines[label]
    if (name in catalog.ALGORITHMS or "+" in name) and not catalog.shares_model(name):
        raise UserMistake(
            f"start.run {path}: {label} shares no model that others could begin with; choose another label"
        )
    return TrainedModels(path, label)


def identified(experiment: Experiment) -> Experiment:
    """The experiment with the trained models that it begins with named by their content, seed by seed."""
    start = experiment.start
    if start is None or start.run is None:
        return experiment
    trained = open_trained(start)
    digests = {str(seed): trained.digest(seed) for seed in experiment.seeds}
    for seed, noted in start.digests.items():
        if digests.get(seed, noted) != noted:
            raise UserMistake(f"start.run {trained.path} holds another model for seed {seed} than start.digests says")
    return experiment.replace(start=start.model_copy(update={"label": trained.label, "digests": digests}))
