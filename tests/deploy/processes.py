"""A server and its devices as processes of their own, on loopback with TLS; tests kill them.

Each kills itself at the moment that its settings name, if they name one, by the function that is given to `serve` and
`join` for that: no message and no environment can make the real commands do so.
"""

import faulthandler
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.deploy.loopback import PATIENCE, free_endpoint, issue_all, until

NAMES = ("alice", "bob", "carol")
RECIPE = """
[problem]
name = "digits"
clients = 3
model = { name = "mlp", hidden = [8] }

[training]
local_steps = 2
step_size = 0.1
batch_size = 8

[[algorithms]]
name = "plain+asynchronous"
label = "mine"
"""


class Deployment:
    """Folders, keys and processes of one run."""

    def __init__(self, folder: Path, recipe: str = RECIPE, names: tuple[str, ...] = NAMES) -> None:
        self.folder, self.names = folder, names
        self.keys = issue_all(folder / "keys", list(names))
        self.recipe, self.out, self.endpoint = folder / "recipe.toml", folder / "out", free_endpoint()
        self.recipe.write_text(recipe)
        self.processes: dict[str, BaseProcess] = {}

    def __enter__(self) -> "Deployment":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.join()

    def serve(self, **settings: Any) -> BaseProcess:
        return self._start("server", "serve", out=str(self.out), keys=str(self.keys / "server"), **settings)

    def join(self, name: str, who: str = "", **settings: Any) -> BaseProcess:
        mine = {"keys": str(self.keys / name), "state": str(self.folder / f"state-{name}")}
        mine |= {"data": f"recipe:{self.names.index(name)}", **settings}
        return self._start(who or name, "join", name=name, **mine)

    def _start(self, who: str, what: str, **settings: Any) -> BaseProcess:
        told = {"recipe": str(self.recipe), "endpoint": self.endpoint, **settings}
        # Spawned and not forked: JAX has threads, and a fork of it may stand still for good.
        process = multiprocessing.get_context("spawn").Process(
            target=run, args=(what, told, self.folder / f"{who}.log")
        )
        process.start()
        self.processes[who] = process
        return process

    def kill(self, who: str) -> None:
        self.processes[who].kill()
        self.processes[who].join()

    def said(self, who: str) -> str:
        path = self.folder / f"{who}.log"
        return path.read_text() if path.exists() else ""  # it has only just been started

    def status(self) -> dict[str, Any]:
        path = self.out / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"updates": -1, "devices": {}}

    def until_updates(self, count: int, seconds: float = 300.0) -> None:
        until(lambda: self.status()["updates"] >= count, seconds)

    def wait(self, who: str, seconds: float = 300.0) -> int | None:
        self.processes[who].join(PATIENCE * seconds)
        if self.processes[who].exitcode is None:
            self.show()
        return self.processes[who].exitcode

    def show(self) -> None:
        """Print where everybody stands, for whoever reads why a test has failed."""
        for process in self.processes.values():
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGUSR1)
        time.sleep(1)
        for who in self.processes:
            print(f"== {who}: {self.said(who)[-4000:]}")


def dies_at(moment: str | None, occurrence: int = 1, how: int = signal.SIGKILL):
    """kill -9 of this process, or another signal, when a moment has come so many times."""
    seen: Counter[str] = Counter()

    def at(name: str) -> None:
        seen[name] += 1
        if name == moment and seen[name] == occurrence:
            os.kill(os.getpid(), how)

    return at


def run(what: str, told: dict[str, Any], log: Path) -> None:
    """What a process does; what it says is in its log."""
    with open(log, "a", buffering=1) as sys.stdout:
        sys.stderr = sys.stdout
        faulthandler.register(signal.SIGUSR1, sys.stdout, all_threads=True)  # where does it stand?
        _confine(told)
        from idiolect.errors import UserMistake

        try:
            (_serve if what == "serve" else _join)(told)
        except UserMistake as mistake:
            print(mistake)
            sys.exit(2)
        except Exception:
            traceback.print_exc()  # here, while the log is open
            raise


def _confine(told: dict[str, Any]) -> None:
    """To a network namespace, or to a disk that seems full; not every system has what that takes."""
    if "space" in told:
        from tests.deploy import lossy_cable

        lossy_cable.enter(told["space"])  # before there are threads, which would stay outside
    if "room" in told:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (told["room"], resource.RLIM_INFINITY))  # bytes of a file


def _work(told: dict[str, Any]) -> Any:
    from idiolect.deploy.assignment import assignment
    from idiolect.experiments.recipe_files import load_recipe

    return assignment(load_recipe(told["recipe"]), None, own=told.get("data"))


def _serve(told: dict[str, Any]) -> None:
    from idiolect.commands.arguments import say
    from idiolect.commands.stopping import stopping_gently
    from idiolect.deploy.serving.serving_folder import serve
    from idiolect.deploy.serving.turned_away import Rules

    rules = Rules(**{"checkpoint_every": 10, **told.get("rules", {})})
    where = (_work(told), Path(told["out"]), told["endpoint"], Path(told["keys"]))
    moment = dies_at(told.get("dies"), told.get("occurrence", 1))
    with stopping_gently(say) as stopping:
        serve(*where, rules=rules, updates=told.get("updates"), stop=stopping.asked, moment=moment, notice=say)


def _join(told: dict[str, Any]) -> None:
    from idiolect.commands.arguments import say
    from idiolect.commands.stopping import stopping_gently
    from idiolect.deploy.joining import line
    from idiolect.deploy.joining.membership import join
    from idiolect.errors import Interrupted

    where = (told["endpoint"], told["name"], Path(told["keys"]), told["data"], Path(told["state"]))
    moment = dies_at(told.get("dies"), told.get("occurrence", 1), told.get("how", signal.SIGKILL))
    if "lies" in told:
        _lie(told["lies"])
    for name, value in told.get("line", {}).items():  # what this version of idiolect says of itself
        setattr(line, name, value)
    with stopping_gently(say) as stopping:
        try:
            print(join(_work(told), *where, turns=told.get("turns"), stop=stopping.asked, moment=moment, notice=say))
        except Interrupted:  # while nobody answered, as the command has it
            print("stopped")


def _lie(factor: float) -> None:
    """From now on, this process sends its updates so many times as long."""
    import numpy as np

    from idiolect.deploy.joining.line import Line
    from idiolect.deploy.wire import pack, unpack

    honestly = Line.ask

    def ask(line: Line, verb: str, content: bytes) -> Any:
        if verb == "upload":
            said, tensors = unpack(content, limit=2**30)
            content = pack(said, {name: (np.float32(factor) * array) for name, array in tensors.items()})
        return honestly(line, verb, content)

    Line.ask = ask  # type: ignore[method-assign]
