"""Keys and endpoints for tests with real sessions on this machine."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from idiolect.deploy import keys
from idiolect.deploy.access import needs_zenoh

# How much longer than usual to wait for others, on a machine that is busy with other things.
PATIENCE = float(os.environ.get("IDIOLECT_PATIENCE", "1"))


def free_endpoint(kind: str = "tls") -> str:
    """An endpoint on this machine where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"{kind}/127.0.0.1:{found.getsockname()[1]}"


def issue_all(folder: Path, devices: list[str], *, server: str = "server") -> Path:
    """An authority, a server's identity and those of devices."""
    keys.init(folder)
    keys.issue(folder, server, hosts=["127.0.0.1"])
    for name in devices:
        keys.issue(folder, name)
    return folder


@contextlib.contextmanager
def session(config: Any) -> Iterator[Any]:
    """A session, for as long as it is needed."""
    with needs_zenoh().open(config) as found:
        yield found


def ask(session: Any, key: str, payload: bytes = b"?", seconds: float = 3.0) -> list[bytes]:
    """What is replied to a query."""
    return [reply.ok.payload.to_bytes() for reply in session.get(key, payload=payload, timeout=seconds) if reply.ok]


def until(there: Callable[[], Any], seconds: float = 60.0) -> Any:
    """What comes to be, within a while."""
    end = time.monotonic() + PATIENCE * seconds
    while not (found := there()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found
