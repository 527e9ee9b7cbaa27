"""The process that stays on a node: a device whose line to its server is couriers of Flower's."""

from collections.abc import Callable
from pathlib import Path

from idiolect.deploy.assignment import Assignment
from idiolect.deploy.flower.mailbox import Mailbox
from idiolect.deploy.joining.membership import take_part


def reside(
    work: Assignment,
    data: str,
    state: Path,
    *,
    turns: int | None = None,
    scores: bool = True,
    stop: Callable[[], bool] = lambda: False,
    moment: Callable[[str], None] = lambda name: None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> str:
    """Take turns until the server ends the run, so many are done, or somebody asks to stop; why it ended."""
    line = Mailbox(state, stop=stop, notice=notice)
    return take_part(work, line, data, state, turns=turns, scores=scores, stop=stop, moment=moment, notice=notice)
