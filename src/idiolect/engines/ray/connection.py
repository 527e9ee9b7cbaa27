"""Connection to a Ray cluster, or to one of our own on this machine; failures are told in one sentence."""

import logging
import os
import signal
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from idiolect.errors import UserMistake

PATIENCE = 10.0  # seconds for an address to answer; Ray itself would try for minutes


@contextmanager
def connected(address: str | None = None) -> Iterator[Any]:
    """While this lasts, the module `ray` is connected: to the address, or to a cluster of its own that ends with it.

    Args:
        address: Of a Ray cluster, as HOST:PORT, ray://HOST:PORT or auto; without it, Ray starts on this machine.

    Returns:
        A context that gives the module `ray`. A cluster that was connected before stays so after it.

    Example:
        >>> from idiolect import UserMistake
        >>> from idiolect.engines.ray import connected
        >>> try:
        ...     with connected("nowhere"):
        ...         pass
        ... except UserMistake:
        ...     print("that is no address")
        that is no address
    """
    ray = _imported()
    if ray.is_initialized():  # whoever did that knows where to, and when to end it
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # of turns that nobody asks for any more: one was enough
    if address is not None:
        _knock(address)
    with _signals_kept(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)  # Ray's processes exec at once
        _connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise UserMistake("--engine is 'ray', but Ray is not installed; pip install 'idiolect[ray]'") from None
    return ray


def _connect(ray: Any, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None:
            ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as reason:  # a node that does not start in time raises nothing more precise
        where = "no local Ray could be started" if address is None else f"--address {address} has no Ray that answers"
        first = (str(reason).strip() or type(reason).__name__).splitlines()[0]
        raise UserMistake(f"{where}: {first}") from None


def _knock(address: str) -> None:
    """Find out soon whether anybody listens."""
    if address == "auto":
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        raise UserMistake(f"--address is '{address}', but must be HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as reason:
        raise UserMistake(f"--address {address} does not answer: {reason}") from None


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; a run answers it with a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
