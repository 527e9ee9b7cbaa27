"""The progress bar of a run: what is at work, its score by name, and a time left that does not jump."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from idiolect.experiments.running import Progress
from idiolect.experiments.value import Experiment

_SURE = 0.02  # the share of a run before which nothing is said of the rest


class Course:
    """How far a run is, and how long the rest may take.

    The time left is that of all work so far in proportion, so that one quick algorithm does not promise a quick end;
    what is compiled is counted apart, once for each algorithm.
    """

    def __init__(self, experiment: Experiment, finished: int = 0, read: Callable[[], float] = time.monotonic) -> None:
        self._horizon, self._read, self._labels = experiment.horizon, read, len(experiment.labels)
        self._total = max(1, len(experiment.labels) * len(experiment.seeds) - finished) * self._horizon
        self._reached: dict[tuple[str, int], tuple[float, int]] = {}  # by cell: its time, and how many go with it
        self._before, self._compiling = read(), True
        self._worked, self._compiled, self._seen = 0.0, 0.0, set[str]()

    def note(self, state: Progress) -> None:
        """Hear of the run."""
        now, cell = self._read(), (state.label, state.seed)
        if self._compiling:
            self._compiled += now - self._before
        else:
            self._worked += now - self._before
        self._before, self._compiling = now, state.compiling
        if cell not in self._reached:  # those before it are finished, some of them before their time
            self._reached = {other: (self._horizon, count) for other, (_, count) in self._reached.items()}
        self._reached[cell] = (state.time, state.together)
        self._seen.add(state.label)

    @property
    def share(self) -> float:
        """What is done of the whole."""
        return min(1.0, sum(reached * count for reached, count in self._reached.values()) / self._total)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest may take; None as long as nobody can tell."""
        if self.share < _SURE or not self._worked:
            return None
        to_compile = max(0, self._labels - len(self._seen)) * self._compiled / max(1, len(self._seen))
        return self._worked * (1 - self.share) / self.share + to_compile


def in_words(seconds: float | None) -> str:
    """A time left, no more exact than it is known."""
    if not seconds:  # which nobody can tell, or there is none left
        return ""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * length:
            return f"about {seconds / length:.0f} {unit} left"
    return f"about {max(10, 10 * round(seconds / 10))} s left"


def in_short(state: Progress, experiment: Experiment) -> str:
    """Where a cell is, and what it scores."""
    if state.compiling:
        return "compiling"
    score = "" if state.score is None else f"  {state.metric} {state.score:.3f}".rstrip()
    if experiment.rounds is not None:
        return f"round {state.time:.0f} of {experiment.rounds}{score}"
    return f"time {state.time:6.1f} of {experiment.horizon:g}{score}"


@contextmanager
def progress_bar(experiment: Experiment, finished: int = 0) -> Iterator[Callable[[Progress], None]]:
    """A bar over the cells of an experiment that are not finished yet; silent if nobody watches."""
    # Here, since `learn` needs them only if somebody does.
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    console, course = Console(stderr=True), Course(experiment, finished)
    if not console.is_terminal:  # older versions of rich end even a bar that is disabled with an empty line
        yield lambda state: None
        return
    fields = [TextColumn(f"{{task.fields[{name}]}}") for name in ("state", "left")]
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), *fields)
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("preparing", total=1.0, state="", left="")

        def show(state: Progress) -> None:
            course.note(state)
            bar.update(
                task,
                completed=course.share,
                description=f"{state.label}, seed {state.seed}",
                state=in_short(state, experiment),
                left=in_words(course.seconds_left),
            )

        yield show


def watched(
    experiment: Experiment, progress: bool | Callable[[Progress], None]
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Who hears how far a run is: a bar, nobody, or a function of the user's."""
    if callable(progress):
        return nullcontext(progress)
    return progress_bar(experiment) if progress and sys.stderr.isatty() else nullcontext(lambda state: None)
