"""What is noted of a seed beside its cells: who holds what, and what references score."""

from pathlib import Path

from idiolect.contracts import Problem
from idiolect.experiments.building import BuiltSeed, build_problem
from idiolect.experiments.references import score_reference
from idiolect.experiments.value import Experiment
from idiolect.results.folder import RunFolder
from idiolect.results.traits import knows_traits, write_traits


def note_seed(folder: RunFolder, experiment: Experiment, built: BuiltSeed) -> None:
    """What is noted of a seed before its clients work: who holds what, and what references score."""
    _write_notes(folder, experiment, built.seed, built.problem)


def mend_notes(folder: RunFolder, experiment: Experiment, seed: int, data_dir: Path | None) -> None:
    """Note again what is damaged or missing of a seed's notes, though all of its cells are there."""
    if not knows_traits(folder, seed) or not all(
        folder.knows_reference(name, seed) for name in experiment.evaluation.references
    ):
        _write_notes(folder, experiment, seed, build_problem(experiment, seed, data_dir))


def _write_notes(folder: RunFolder, experiment: Experiment, seed: int, problem: Problem) -> None:
    if not knows_traits(folder, seed):
        write_traits(folder, seed, problem.clients)
    for name in experiment.evaluation.references:
        if not folder.knows_reference(name, seed):
            folder.add_reference(score_reference(experiment, problem, name, seed))
