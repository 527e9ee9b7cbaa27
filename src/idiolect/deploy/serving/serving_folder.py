"""The folder of a server: its log, checkpoints and status, and what it leaves for the simulator and for people."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from safetensors.numpy import save

from idiolect.deploy.access import checked_endpoint
from idiolect.deploy.assignment import Assignment
from idiolect.deploy.keys import read_identity
from idiolect.deploy.serving.reception import Reception
from idiolect.deploy.serving.service import Service
from idiolect.deploy.serving.turned_away import Rules
from idiolect.files import make_folder, write_atomically
from idiolect.network.timelines import write_timeline
from idiolect.results.beginning import begin_folder
from idiolect.trees import as_tensors, names_of

STATUS, SERVING = "status.json", "serving"
_FAREWELL = 30.0  # seconds in which devices can hear that the run is over


def serve(
    work: Assignment,
    out: Path,
    endpoint: str,
    keys: Path | None,
    *,
    rules: Rules = Rules(),
    updates: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    moment: Callable[[str], None] = lambda name: None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> Path | None:
    """Serve a run in its folder until somebody asks it to stop or so many updates are there; its timeline, if any.

    `keys` is the folder of the server's identity; without it there is neither TLS nor anybody who is kept out.
    `moment` hears of every durable write and every sending, before and after; it is for tests that kill the process.
    """
    checked_endpoint(endpoint, insecure=keys is None)
    identity = None if keys is None else read_identity(keys)

    def opened(reception: Reception) -> Service:
        notice(f"listening at {endpoint}")
        return Service(work, reception, identity, endpoint, moment=moment, notice=notice)

    return serve_with(work, out, opened, rules=rules, updates=updates, stop=stop, moment=moment, notice=notice)


class Answering(Protocol):
    """A server while it hears devices, over whatever network: answers until it is time to stop."""

    def run(self, done: Callable[[], bool], status: Path) -> None:
        """Answer until `done`; the status is written every few seconds."""

    def write_status(self, path: Path) -> None:
        """Write who takes part and what has come."""


def serve_with(
    work: Assignment,
    out: Path,
    opened: Callable[[Reception], Answering],
    *,
    rules: Rules = Rules(),
    updates: int | None = None,
    farewell: float = _FAREWELL,
    stop: Callable[[], bool] = lambda: False,
    moment: Callable[[str], None] = lambda name: None,
    notice: Callable[[str], None] = lambda sentence: None,
) -> Path | None:
    """Serve a run in its folder, whatever its messages come by; its timeline, if any."""
    with begin_folder(out, work.experiment, clock="real"):
        reception = Reception(work, out / SERVING, rules=rules, moment=moment, notice=notice)
        service, desk = opened(reception), reception.desk
        notice(f"{desk.updates} updates are there, {len(desk.members)} devices are known")

        service.run(_Ending(reception, updates, stop, farewell).is_due, out / STATUS)
        reception.close()
        service.write_status(out / STATUS)
        return _leave(work, reception, out)


class _Ending:
    """When a server may go: all devices know that the run is over, or have not asked for a while."""

    def __init__(self, reception: Reception, updates: int | None, stop: Callable[[], bool], farewell: float) -> None:
        self._reception, self._updates, self._stop = reception, updates, stop
        self._farewell, self._since = farewell, math.inf

    def is_due(self) -> bool:
        desk = self._reception.desk
        enough = self._updates is not None and desk.updates >= self._updates and desk.opened is None
        if not self._reception.over and enough:
            self._reception.over, self._since = True, time.monotonic()
        told = self._reception.over and self._reception.told_over >= desk.members.keys()
        return self._stop() or told or time.monotonic() - self._since > self._farewell


def _leave(work: Assignment, reception: Reception, out: Path) -> Path | None:
    """Write the timeline, the model and the scores, from which the run is replayed and read."""
    desk, name = reception.desk, f"{work.label}-seed{work.seed}"
    tensors = as_tensors(names_of("server", desk.model()))
    make_folder(out / "scores")
    write_atomically(out / "params" / f"{name}.safetensors", save(tensors))
    lines = "".join(json.dumps(score) + "\n" for score in desk.scores)
    write_atomically(out / "scores" / f"{name}.jsonl", lines.encode())
    if not desk.updates or (desk.schedule.rounds and not desk.round):
        return None
    timeline = out / "timelines" / f"{name}.csv"
    write_atomically(timeline, write_timeline(desk.timeline()).encode())
    return timeline
