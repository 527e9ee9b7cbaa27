"""Nodes in one process: devices that stay, and couriers on threads, who bring them letters, lose them and double them.

Devices and server are the real ones, with hatches on loopback and records on disk; only Flower is not there.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from idiolect.deploy.assignment import Assignment
from idiolect.deploy.flower.hatch import pass_through
from idiolect.deploy.flower.post_office import PostOffice, Reply
from idiolect.deploy.flower.resident import reside
from idiolect.deploy.serving.serving_folder import serve_with
from idiolect.deploy.serving.turned_away import Rules
from idiolect.errors import Interrupted, UserMistake
from tests.deploy.small_world import Killed

NODES = (7, 8, 9)


class Riders:
    """A carrier of letters: each goes on a thread of its own."""

    def __init__(self, folders: dict[int, Path]) -> None:
        self.folders = folders
        self.loses: Callable[[int], bool] = lambda letter: False  # asked for each letter, by its number
        self.loses_reply: Callable[[int], bool] = lambda letter: False
        self.doubles: Callable[[int], bool] = lambda letter: False
        self.letters: list[tuple[int, bytes]] = []  # all that were sent, and to whom
        self.replies: list[bytes] = []
        self._came: dict[str, Reply] = {}
        self._numbers = itertools.count()

    def nodes(self) -> Iterable[int]:
        return list(self.folders)

    def push(self, node: int, letter: bytes) -> str | None:
        number = next(self._numbers)
        self.letters.append((node, letter))
        for _ in range(1 + self.doubles(number)):
            threading.Thread(target=self._ride, args=(number, node, letter), daemon=True).start()
        return str(number)

    def pull(self, sent: Sequence[str]) -> Iterable[Reply]:
        return [self._came.pop(one) for one in list(sent) if one in self._came]

    def _ride(self, number: int, node: int, letter: bytes) -> None:
        if self.loses(number):
            return
        try:
            found = Reply(str(number), pass_through(self.folders[node], letter, 60.0))
        except UserMistake as mistake:
            found = Reply(str(number), b"", str(mistake))
        self.replies.append(found.letter)
        if not self.loses_reply(number):
            self._came[str(number)] = found


class Network:
    """A server and its nodes."""

    def __init__(self, folder: Path, work: Assignment) -> None:
        self.folder, self.work = folder, work
        self.folders = {node: folder / f"state-{node}" for node in NODES}
        self.riders = Riders(self.folders)
        self.said: list[str] = []
        self.ended: dict[int, list[str]] = {node: [] for node in NODES}
        self._residents: list[threading.Thread] = []
        self.stopped = False

    def start_residents(self, dies: Callable[[str], bool] = lambda moment: False, **settings: Any) -> None:
        for place, node in enumerate(NODES):
            thread = threading.Thread(target=self._reside, args=(node, f"recipe:{place}", dies, settings), daemon=True)
            thread.start()
            self._residents.append(thread)
        end = time.monotonic() + 30
        while time.monotonic() < end and not all((one / "hatch.json").exists() for one in self.folders.values()):
            time.sleep(0.01)

    def _reside(self, node: int, data: str, dies: Callable[[str], bool], settings: dict[str, Any]) -> None:
        """A device, which begins anew whenever it is killed."""
        while not self.ended[node] and not self.stopped:
            try:
                why = reside(
                    self.work,
                    data,
                    self.folders[node],
                    stop=lambda: self.stopped,
                    moment=partial(_die_at, dies),
                    notice=self.said.append,
                    **settings,
                )
                self.ended[node].append(why)
            except Killed:
                continue
            except Interrupted:
                return

    def serve(self, updates: int, dies: Callable[[str], bool] = lambda moment: False, **settings: Any) -> Path | None:
        """Serve until so many updates are there; whoever is killed begins anew from the folder."""
        rules, patience = settings.pop("rules", Rules(checkpoint_every=7)), settings.pop("patience", 3600.0)
        while True:
            die = partial(_die_at, dies)
            opened = partial(
                PostOffice,
                self.work,
                carrier=self.riders,
                patience=patience,
                pause=0.005,
                moment=die,
                notice=self.said.append,
            )
            try:
                return serve_with(
                    self.work, self.folder / "out", opened, rules=rules, updates=updates, moment=die, farewell=20.0
                )
            except Killed:
                continue

    def stop(self) -> None:
        self.stopped = True
        for thread in self._residents:
            thread.join(30)
            assert not thread.is_alive()


def _die_at(dies: Callable[[str], bool], moment: str) -> None:
    if dies(moment):
        raise Killed
