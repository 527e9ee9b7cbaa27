"""A device from its keys to its last turn."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from idiolect.deploy.access import checked_endpoint
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.joining.device import Device, Over
from idiolect.deploy.joining.device_record import RecordFile
from idiolect.deploy.joining.line import Line
from idiolect.deploy.joining.own_data import own_data, own_scores
from idiolect.deploy.keys import read_identity
from idiolect.deploy.roster import checked_name
from idiolect.deploy.wire import Message
from idiolect.errors import UserMistake


def join(
    work: Assignment,
    endpoint: str,
    name: str,
    keys: Path | None,
    data: str,
    state: Path,
    *,
    turns: int | None = None,
    scores: bool = True,
    stop: Callable[[], bool] = lambda: False,
    moment: Callable[[str], None] = lambda name: None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> str:
    """Take turns until the server ends the run, so many are done, or somebody asks to stop; why it ended.

    `keys` is the folder of the device's identity. `moment` hears of every durable write and every sending.
    """
    checked_endpoint(endpoint, insecure=keys is None)
    identity = None if keys is None else read_identity(keys)
    if identity is not None and identity.name != checked_name(name):
        raise UserMistake(f"--as is '{name}', but the certificate in {keys} is {identity.name}'s")
    line = Line(identity, checked_name(name), endpoint, stop=stop, notice=notice)
    return take_part(work, line, data, state, turns=turns, scores=scores, stop=stop, moment=moment, notice=notice)


class AnyLine(Protocol):
    """A device's way to its server."""

    def greet(self, work: Assignment) -> None:
        """Begin; say how the server's work differs, if it does."""

    def ask(self, verb: str, content: bytes) -> Message:
        """The answer to a message, however long that takes."""

    def close(self) -> None:
        """End."""


def take_part(
    work: Assignment,
    line: AnyLine,
    data: str,
    state: Path,
    *,
    turns: int | None = None,
    scores: bool = True,
    stop: Callable[[], bool] = lambda: False,
    moment: Callable[[str], None] = lambda name: None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> str:
    """Take turns over a line, until there is a reason not to; why it ended."""
    mine, wants = own_data(data, work)
    files = RecordFile(state)
    score = own_scores(work) if scores else None
    try:
        with FileLock(state / ".lock", timeout=0):
            line.greet(work)
            device = Device(work, mine, files, line.ask, wants=wants, score=score, moment=moment, notice=notice)
            return _work(device, turns, stop)
    except Timeout:
        raise UserMistake(f"--state {state} is in use by another process") from None
    finally:
        line.close()


def _work(device: Device, turns: int | None, stop: Callable[[], bool]) -> str:
    done = 0
    while not stop():
        if turns is not None and done >= turns and device.record.stage != "committed":
            return f"{done} turns are done"
        before = device.record.last
        try:
            device.step()
        except Over as reason:
            return str(reason)
        done += device.record.last != before
    return "stopped"
