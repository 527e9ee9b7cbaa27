"""How a run folder is begun: whose it is, that nobody else runs there, and which name is free."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from idiolect.errors import UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.value import Experiment
from idiolect.files import is_unfinished, make_folder, sweep, write_atomically
from idiolect.results.folder import REAL_CLOCK, RECIPE, RunFolder, clock_of, difference_to

PARTS = ("cells", "timelines", "params", "references", "checkpoints", "traits", "progress")
LOCK = ".lock"


def check_clock(path: Path, clock: str) -> None:
    """Refuse to go on with a run by another clock than it began with."""
    if (path / RECIPE).is_file() and clock != clock_of(path):
        raise UserMistake(f"--clock is {clock}, but the run in {path} has a {clock_of(path)} clock")


def check_folder(path: Path, experiment: Experiment) -> None:
    """Refuse a folder that belongs to another experiment, and name the difference; or one that holds no run."""
    if (path / RECIPE).exists():
        if found := difference_to(path, experiment):
            raise UserMistake(f"--out {path} holds a run of another experiment: {found}; name a new folder")
    elif path.exists() and not all(map(_of_a_start, _listed(path))):
        raise UserMistake(f"--out {path} is not empty and holds no run; name a new folder")


@contextmanager
def begin_folder(path: Path, experiment: Experiment, *, clock: str = "virtual") -> Iterator[RunFolder]:
    """The folder of an experiment's run, made if it is not there, while no other process can run in it."""
    check_folder(path, experiment)  # before anything is left in a folder of somebody else's
    try:
        make_folder(path)
    except OSError as reason:
        raise _unwritable(path, reason) from None
    with alone_in(path):
        # Only now can nobody else write here: what was seen before may have changed.
        check_clock(path, clock)
        check_folder(path, experiment)
        try:
            if not (path / RECIPE).exists():
                (path / REAL_CLOCK).unlink(missing_ok=True)  # of a run that never began
                if clock == "real":
                    write_atomically(path / REAL_CLOCK, b"")
                write_atomically(path / RECIPE, write_experiment(experiment).encode())
            for part in PARTS:
                make_folder(path / part)
                sweep(path / part)
        except OSError as reason:
            raise _unwritable(path, reason) from None
        yield RunFolder(path)


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """While this lasts, no other process can run here. The lock of a process that is gone is no lock."""
    lock = FileLock(path / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserMistake(f"{path} is in use: another process runs there; wait, or stop it") from None
    except OSError as reason:
        raise UserMistake(f"{path / LOCK} cannot be written: {reason.strerror or reason}") from None
    try:
        sweep(path)
        yield
    finally:
        lock.release()


def _unwritable(path: Path, reason: OSError) -> UserMistake:
    return UserMistake(f"--out {path} cannot be written: {reason.strerror or reason}")


def _listed(path: Path) -> list[Path]:
    try:
        return list(path.iterdir())
    except OSError as reason:
        raise UserMistake(f"--out {path} is no folder to run in: {reason.strerror or reason}") from None


def _of_a_start(path: Path) -> bool:
    """Can this be from a run that was killed before its recipe was written?"""
    return is_unfinished(path) or path.name in (REAL_CLOCK, LOCK)


@contextmanager
def claimed_folder(parent: Path, name: str) -> Iterator[Path]:
    """`parent/name`, or with the first number that is not taken: no other process gets it, and it goes if unused."""
    path, number, made = parent / name, 2, not parent.is_dir()
    try:
        make_folder(parent)
        while True:
            try:
                path.mkdir()
                break
            except FileExistsError:
                path, number = parent / f"{name}-{number}", number + 1
    except OSError as reason:  # nobody has named this folder
        raise UserMistake(f"{path} cannot be written: {reason.strerror or reason}; name another with --out") from None
    try:
        yield path
    finally:
        for place in (path, parent) if made else (path,):
            with suppress(OSError):  # it is not empty, and so was of use
                place.rmdir()
