"""Personalized learning across devices that share no data, wait for nobody and trust no network.

The pieces are in `idiolect.problems`, `idiolect.objectives`, `idiolect.protocols` and `idiolect.network`; the functions
here join them. Everything is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "Algorithm": "contracts",
    "Attack": "protocols.attacks",
    "Budget": "evaluation.scores",
    "Choice": "registry",
    "Delay": "network",
    "Diverged": "errors",
    "Evaluation": "experiments.recipe_tables",
    "Experiment": "experiments.value",
    "Interrupted": "errors",
    "Links": "network",
    "LocalOptimizer": "contracts",
    "NamedAlgorithm": "experiments.recipe_tables",
    "Network": "network",
    "Objective": "contracts",
    "OwnTraining": "experiments.recipe_tables",
    "Peer": "contracts",
    "Place": "experiments.places",
    "Problem": "contracts",
    "Protocol": "contracts",
    "Refused": "errors",
    "Result": "experiments.cell_results",
    "Run": "results.run",
    "Screening": "contracts",
    "Sharing": "contracts",
    "Start": "experiments.recipe_tables",
    "StepRule": "contracts",
    "Timeline": "network",
    "Training": "experiments.recipe_tables",
    "UserMistake": "errors",
    "advise_widths": "inspection.width_advice",
    "compare_runs": "comparison.run_comparison",
    "export_models": "export.run_models",
    "inspect_experiment": "inspection.experiment_inspection",
    "learn": "learning",
    "load_recipe": "experiments.recipe_files",
    "open_run": "results.run",
    "problem": "problems.supervised",
    "run": "interface",
    "stateless": "contracts",
    "take_over": "interface",
    "timeline": "network",
    "write_report": "report.writing",
}
_DECORATORS = {
    "delay_law": "DELAY_LAWS",
    "model": "MODELS",
    "named_problem": "PROBLEMS",
    "objective": "OBJECTIVES",
    "partition": "PARTITIONS",
    "peer": "PEERS",
    "protocol": "PROTOCOLS",
    "token_model": "TOKEN_MODELS",
    "topology": "TOPOLOGIES",
}

__all__ = [
    "Algorithm",
    "Attack",
    "Budget",
    "Choice",
    "Delay",
    "Diverged",
    "Evaluation",
    "Experiment",
    "Interrupted",
    "Links",
    "LocalOptimizer",
    "NamedAlgorithm",
    "Network",
    "Objective",
    "OwnTraining",
    "Peer",
    "Place",
    "Problem",
    "Protocol",
    "Refused",
    "Result",
    "Run",
    "Screening",
    "Sharing",
    "Start",
    "StepRule",
    "Timeline",
    "Training",
    "UserMistake",
    "advise_widths",
    "compare_runs",
    "delay_law",
    "export_models",
    "inspect_experiment",
    "learn",
    "load_recipe",
    "model",
    "named_problem",
    "objective",
    "open_run",
    "partition",
    "peer",
    "problem",
    "protocol",
    "run",
    "stateless",
    "take_over",
    "timeline",
    "token_model",
    "topology",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"idiolect.{_WHERE[name]}"), name)
    if name in _DECORATORS:
        return getattr(import_module("idiolect.catalog"), _DECORATORS[name])
    try:
        return import_module(f"idiolect.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module 'idiolect' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    from idiolect.comparison.run_comparison import compare_runs
    from idiolect.contracts import (
        Algorithm,
        LocalOptimizer,
        Objective,
        Peer,
        Problem,
        Protocol,
        Screening,
        Sharing,
        StepRule,
        stateless,
    )
    from idiolect.errors import Diverged, Interrupted, Refused, UserMistake
    from idiolect.evaluation.scores import Budget
    from idiolect.experiments.cell_results import Result
    from idiolect.experiments.places import Place
    from idiolect.experiments.recipe_files import load_recipe
    from idiolect.experiments.recipe_tables import Evaluation, NamedAlgorithm, OwnTraining, Start, Training
    from idiolect.experiments.value import Experiment
    from idiolect.export.run_models import export_models
    from idiolect.inspection.experiment_inspection import inspect_experiment
    from idiolect.inspection.width_advice import advise_widths
    from idiolect.interface import run, take_over
    from idiolect.learning import learn
    from idiolect.network import Delay, Links, Network, Timeline, timeline
    from idiolect.problems.supervised import problem
    from idiolect.protocols.attacks import Attack
    from idiolect.registry import Choice
    from idiolect.registry import Registry as _Registry
    from idiolect.report.writing import write_report
    from idiolect.results.run import Run, open_run

    delay_law: _Registry
    model: _Registry
    named_problem: _Registry
    objective: _Registry
    partition: _Registry
    peer: _Registry
    protocol: _Registry
    token_model: _Registry
    topology: _Registry
