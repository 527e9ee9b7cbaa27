"""Processes that measure whenever they are asked: each side of a comparison has its own, and they are asked in turn.

What a side imports and compiles, its threads and its memory are its own, and starting up is not measured.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Any

from figures import Pace

Answer = dict[str, float]
LOOPBACK = 'ip link set lo up; exec "$@"'


def serve(measure: Callable[[], Answer]) -> None:
    """Say that all is ready, then measure once for every line that comes in; what is printed meanwhile is no answer."""
    print("ready", flush=True)
    for _ in sys.stdin:
        with redirect_stdout(sys.stderr):
            found = measure()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"memory": memory, **found}), flush=True)


@contextmanager
def standing_by(command: Sequence[str], extra: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A process that measures one side; it ends when nobody asks any more."""
    pipe, environment = subprocess.PIPE, {**os.environ, **(extra or {})}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        assert process.stdin is not None
        try:
            yield process
        except BaseException:
            process.terminate()
            raise
        finally:
            with suppress(OSError):  # it may have ended already
                process.stdin.close()


def answer(process: subprocess.Popen[str]) -> str:
    """The next line that it says which is one of ours."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(("ready", "{")):
            return line
    raise RuntimeError(f"{' '.join(map(str, process.args))} has ended")  # type: ignore[arg-type]


def ask(process: subprocess.Popen[str]) -> Answer:
    """Let it measure once."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return dict(json.loads(answer(process)))


def in_turn(
    commands: Mapping[str, Sequence[str]],
    repeats: int,
    pace: Pace | None = None,
    failed: dict[str, str] | None = None,
) -> dict[str, list[Answer]]:
    """Every side asked in turn, so many times, after once that does not count.

    Where `failed` is given, a side that ends before it was ever measured is named there, and the others go on.
    """
    with ExitStack() as stack:
        sides = {name: stack.enter_context(standing_by(command)) for name, command in commands.items()}
        for name, process in list(sides.items()):
            try:
                answer(process)
                ask(process)
            except (RuntimeError, OSError):
                if failed is None:
                    raise
                failed[name] = f"it did not get ready, and ended with {process.wait()}"
                del sides[name]
        found: dict[str, list[Answer]] = {name: [] for name in sides}
        for _ in range(repeats):
            for name, process in sides.items():
                found[name].append(ask(process))
            if pace is not None:
                pace.step()
        return found


def values(answers: Sequence[Answer], name: str = "seconds") -> list[float]:
    """One of the numbers of every answer."""
    return [found[name] for found in answers]


def apart() -> list[str]:
    """How a command begins that shall have nothing but loopback for a network; empty where that cannot be had."""
    inside = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if shutil.which("unshare") is None:
        return []
    tried: Any = subprocess.run([*inside, "ip link set lo up"], check=False, capture_output=True)
    return [] if tried.returncode else [*inside, LOOPBACK, "sh"]
