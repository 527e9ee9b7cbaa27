"""What trackers hear of a run while it goes on, and what happens if one of them fails: nothing, to the run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from idiolect.experiments.records import Point
from idiolect.experiments.running import Listen
from idiolect.experiments.value import Experiment
from idiolect.options import known
from idiolect.tracking.tracker_kinds import Tracker, mlflow, tensorboard, wandb

TRACKERS: Mapping[str, Callable[[Experiment, Path], Tracker]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
}


@contextmanager
def listening(
    names: Sequence[str], experiment: Experiment, out: str | Path, notice: Callable[[str], None] = lambda sentence: None
) -> Iterator[Listen]:
    """A listener for `idiolect.run` that tells trackers of every point of every algorithm and seed.

    Args:
        names: Some of `tensorboard`, `mlflow` and `wandb`; one whose library is missing is refused in a sentence.
        experiment: What is run; trackers show its name.
        out: The run folder. TensorBoard's files go into its folder `tensorboard`.
        notice: Hears once if a tracker fails, which is left out from then on.

    Returns:
        The listener, until the end of a `with` block, which closes the trackers.

    Example:
        >>> import idiolect
        >>> from idiolect.tracking import listening
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics"), ["fedavg"], horizon=20.0)
        >>> with listening([], mine, tmp) as listen:
        ...     run = idiolect.run(mine, out=tmp / "run", listen=listen)
    """
    for name in names:
        known(TRACKERS, "track", name)
    trackers = {name: TRACKERS[name](experiment, Path(out)) for name in dict.fromkeys(names)}

    def guarded(name: str, act: Callable[[Tracker], None]) -> None:
        try:
            act(trackers[name])
        except Exception as reason:  # whatever a tracker does is its own affair
            del trackers[name]
            notice(f"track {name} has failed ({type(reason).__name__}: {reason}); the run goes on without it")

    def listen(label: str, seed: int, point: Point) -> None:
        for name in list(trackers):
            guarded(name, lambda tracker: tracker.note(label, seed, point.time, values_of(point)))

    try:
        yield listen
    finally:
        for name in list(trackers):
            guarded(name, lambda tracker: tracker.close())


def values_of(point: Point) -> dict[str, float]:
    """The numbers of a point by name: over the clients of each group, under every budget, and what clients reported.

    Args:
        point: A run at one moment.

    Returns:
        Such as `participating/own/worst_decile`; the best and the worst client are over both groups.

    Example:
        >>> from idiolect.evaluation.scores import Spread
        >>> from idiolect.experiments.records import Point
        >>> from idiolect.tracking import values_of
        >>> scores = {"participating": {"own": Spread(0.5, 0.1, 0.4, 2)}}
        >>> point = Point(3.0, 7, scores, {0: {"own": 0.4}, 1: {"own": 0.6}}, {}, {})
        >>> values_of(point)["participating/own/worst_decile"], values_of(point)["clients/own/highest"]
        (0.4, 0.6)
    """
    found = {"updates": float(point.updates), "time": point.time}
    for group, scores in point.scores.items():
        for budget, spread in scores.items():
            found |= {
                f"{group}/{budget}/{name}": float(getattr(spread, name)) for name in ("mean", "std", "worst_decile")
            }
    for budget in next(iter(point.clients.values()), {}):
        held = [scores[budget] for scores in point.clients.values()]
        found |= {f"clients/{budget}/lowest": min(held), f"clients/{budget}/highest": max(held)}
    return found | {f"reports/{name}": float(value) for name, value in point.reports.items()}
