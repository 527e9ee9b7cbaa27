"""A device that asks and does not read: a process of its own, whose thread that reads stands still for good."""

import multiprocessing
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

from idiolect.deploy import keys
from idiolect.deploy.access import device_config, needs_zenoh
from idiolect.deploy.wire import pack
from tests.deploy.loopback import session, until
from tests.deploy.processes import Deployment


def start_reader(run: Deployment, name: str, questions: int) -> BaseProcess:
    """Start it; it knows the run from the server's status."""
    told = (str(run.keys / name), run.endpoint, name, run.status()["identity"][:16], questions, run.names.index(name))
    process = multiprocessing.get_context("spawn").Process(
        target=ask_and_not_read, args=(*told, run.folder / "reader.log")
    )
    process.start()
    return process


def ask_and_not_read(folder: str, endpoint: str, name: str, run: str, questions: int, wants: int, log: Path) -> None:
    log.write_text("")
    with session(device_config(keys.read_identity(Path(folder)), endpoint, name)) as mine:
        until(lambda: list(mine.get(f"idiolect/hello/{name}", payload=pack({}), timeout=3.0)), 60)
        asked = pack({"incarnation": "0" * 16, "last": None, "has": None, "wants": wants})
        stands_still = needs_zenoh().handlers.Callback(lambda reply: time.sleep(3600), indirect=False)
        for _ in range(questions):
            mine.get(f"idiolect/{run}/{name}/offer", stands_still, payload=asked, timeout=600.0)
            time.sleep(0.03)
        time.sleep(3600)
