"""Which kind of folder it is, and who reads it: a run's, a server's, or that of peers on this machine."""

from collections.abc import Callable
from pathlib import Path

from idiolect.deploy.peers.local_network import PROCESSES
from idiolect.deploy.serving.serving_folder import SERVING
from idiolect.errors import UserMistake
from idiolect.results.folder import RECIPE
from idiolect.watching.network_view import NetworkReader
from idiolect.watching.run_state import RunReader
from idiolect.watching.run_view import run_view
from idiolect.watching.server_view import ServerReader
from idiolect.watching.view import View


def watcher(path: str | Path) -> Callable[[], View]:
    """Who tells how what goes on in a folder stands, as often as it is asked.

    Nothing is written to the folder, and its lock is not taken.

    Args:
        path: A run folder, that of `idiolect serve`, or that of `idiolect network up`.

    Returns:
        A function that reads the folder as it is then; it raises `UserMistake` where that cannot be read.

    Example:
        >>> import idiolect
        >>> from idiolect.watching import watcher
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> run = idiolect.run(mine, out=tmp / "seen")
        >>> watcher(tmp / "seen")().state
        'finished'
    """
    path = Path(path)
    if (path / PROCESSES).exists():
        return NetworkReader(path).view
    if not (path / RECIPE).exists():
        raise UserMistake(
            f"{path} cannot be watched: it is no folder of a run or a server, which has {RECIPE}, nor of a network, "
            f"which has {PROCESSES}"
        )
    if (path / SERVING).is_dir():
        return ServerReader(path).view
    reader = RunReader(path)
    return lambda: run_view(reader.read())
