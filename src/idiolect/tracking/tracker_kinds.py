"""The trackers: each has a run of its own for every algorithm and seed. Their libraries are imported when asked for."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.experiments.value import Experiment


class Tracker(NamedTuple):
    """Where numbers go.

    Args:
        note: Takes an algorithm, a seed, a time and numbers by name.
        close: Says that there will be no more.
    """

    note: Callable[[str, int, float, Mapping[str, float]], None]
    close: Callable[[], None]


def tensorboard(experiment: Experiment, out: Path) -> Tracker:
    """Event files in the folder `tensorboard` of the run, one folder for each algorithm and seed."""
    library, writers = _library("tensorboard", "tensorboardX"), list[Any]()

    @cache
    def writer(label: str, seed: int) -> Any:
        writers.append(library.SummaryWriter(logdir=str(out / "tensorboard" / f"{label}-seed{seed}")))
        return writers[-1]

    def note(label: str, seed: int, time: float, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer(label, seed).add_scalar(name, value, global_step=round(time))
        writer(label, seed).flush()  # it is watched while the run goes on

    def close() -> None:
        for one in writers:
            one.close()

    return Tracker(note, close)


def mlflow(experiment: Experiment, out: Path) -> Tracker:
    """Runs of an MLflow experiment that is called as ours is, where MLflow's own settings say."""
    client = _library("mlflow", "mlflow").MlflowClient()
    runs = list[str]()

    @cache
    def run(label: str, seed: int) -> str:
        found = client.get_experiment_by_name(experiment.name)
        where = client.create_experiment(experiment.name) if found is None else found.experiment_id
        made = client.create_run(where, run_name=f"{label}-seed{seed}")
        for name, value in {"algorithm": label, "seed": seed, "folder": str(out)}.items():
            client.log_param(made.info.run_id, name, value)
        runs.append(made.info.run_id)
        return runs[-1]

    def note(label: str, seed: int, time: float, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            client.log_metric(run(label, seed), name, value, step=round(time))

    def close() -> None:
        for one in runs:
            client.set_terminated(one)

    return Tracker(note, close)


def wandb(experiment: Experiment, out: Path) -> Tracker:
    """Runs of a project that is called as the experiment is, where the settings of Weights & Biases say."""
    library, runs = _library("wandb", "wandb"), list[Any]()

    @cache
    def run(label: str, seed: int) -> Any:
        about = {"algorithm": label, "seed": seed, "folder": str(out)}
        runs.append(
            library.init(
                project=experiment.name, group=label, name=f"{label}-seed{seed}", config=about, reinit="create_new"
            )
        )
        return runs[-1]

    def note(label: str, seed: int, time: float, values: Mapping[str, float]) -> None:
        run(label, seed).log(dict(values), step=round(time))

    def close() -> None:
        for one in runs:
            one.finish()

    return Tracker(note, close)


def _library(tracker: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise UserMistake(f"track is '{tracker}', which needs {module}; pip install 'idiolect[{tracker}]'") from None
