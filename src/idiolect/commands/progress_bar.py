"""A bar for work that takes long."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENOUGH = 0.02  # of the work must be done before anybody can say how long the rest takes


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """What is being done and how far it is; silent if nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    console, began = Console(stderr=True), time.monotonic()
    if not console.is_terminal:  # older versions of rich end even a bar that is disabled with an empty line
        yield lambda what, share: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("preparing", total=1.0, left="")

        def show(what: str, share: float) -> None:
            left = time_left(time.monotonic() - began, share)
            bar.update(task, completed=share, description=what, left=left)

        yield show


def time_left(passed: float, share: float) -> str:
    """In words, if this share took so many seconds; nothing while too little is done to say."""
    from idiolect.report.progress import in_words

    return in_words(passed * (1 - share) / share) if share >= ENOUGH else ""
