"""Trials judged in several processes at once. They are spawned, since a process that uses JAX must not be forked.

Each makes the experiment for itself and judges what it is given. Which trials there are, and what they come to, does
not depend on how many processes there are or which of them is fast (`idiolect.tuning.trial_journal`).
"""

import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from idiolect.errors import Interrupted, UserMistake
from idiolect.experiments.sources import Source, rebuild
from idiolect.interface import trained_models
from idiolect.results.trained_models import identified
from idiolect.tuning.judging import Judge
from idiolect.tuning.trial_journal import Asked, Judgement, TrialStudy

_LOOK_UP = 0.5  # seconds after which somebody who wants to stop is heard
_judge: list[Judge] = []  # of this process, if it is one of those that are spawned


def judge_side_by_side(
    studies: Mapping[str, TrialStudy],
    jobs: int,
    source: Source,
    seeds: tuple[int, ...],
    folder: Path,
    stop: Callable[[], bool],
) -> None:
    """Judge all that the studies of some algorithms ask for, as many trials at once as there are jobs."""
    with _pool(jobs, (source, seeds, folder)) as pool:
        rounds = {label: study.rounds() for label, study in studies.items()}
        under_way: dict[Future[Judgement | None], tuple[str, Asked]] = {}

        def go_on(label: str) -> None:
            for one in next(rounds[label], []):
                under_way[pool.submit(_judged, label, one.settings, one.share)] = (label, one)

        for label in studies:
            go_on(label)
        while under_way:
            if stop():
                raise Interrupted
            for done in wait(under_way, _LOOK_UP, FIRST_COMPLETED).done:
                label, asked = under_way.pop(done)
                asked.note(done.result())
                if label not in [whose for whose, _ in under_way.values()]:
                    go_on(label)


@contextmanager
def _pool(jobs: int, given: tuple[Any, ...]) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this, whatever they are at."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), _begin, given)
    try:
        yield pool
    except BrokenProcessPool:
        raise UserMistake(
            f"--jobs is {jobs}, but one of these processes died, perhaps for lack of memory; trials that were finished "
            "are kept, and fewer jobs may do"
        ) from None
    finally:
        for process in set(active_children()) - before:
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(source: Source, seeds: tuple[int, ...], folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked for the trials hears it, and ends them
    experiment = identified(rebuild(source).replace(seeds=list(seeds)))
    where = None if source.data_dir is None else Path(source.data_dir)
    _judge[:] = [Judge(experiment, trained_models(experiment, folder), where)]


def _judged(label: str, settings: dict[str, Any], share: float) -> Judgement | None:
    return _judge[0].judge(label, settings, share)
