"""An attack on runs, for a given time: they are killed, damaged, poisoned, frozen and robbed of their power at random.

`python -m tests.attack --seconds 60 --seed 1` prints the seed of each trial, so that what it finds can be found again
(`--only SEED`). Nine trials in a row meet every kind of run with every kind of attack. It ends with 0 if every run went
on to the same bytes, or said in one sentence why it would not.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HEAD = "seeds = [0]\nhorizon = {horizon}\n[training]\nstep_size = 0.02\nbatch_size = 4\n[evaluation]\npoints = 20\n"
QUADRATICS = '[problem]\nname = "quadratics"\nclients = 6\n'
LOSSY = '[links]\nloss = 0.9\ngamma_f = "unbounded"\n'
RECIPES = {
    "server": HEAD.format(horizon=2000) + QUADRATICS + '[[algorithms]]\nname = "fedbuff"\n',
    "ends early": HEAD.format(horizon=20000) + QUADRATICS + LOSSY + '[[algorithms]]\nname = "sgp"\n',
    "poisoned": HEAD.format(horizon=2000)
    + QUADRATICS
    + '[attack]\nclients = [2]\nkind = "sign_flip"\nscale = 1e6\n[[algorithms]]\nname = "fedavg"\n',
}
PROGRAM = "import sys; from idiolect.cli import main; sys.exit(main())"
KEPT = ("params", "timelines", "metrics.jsonl", "clients.csv")


class Found(Exception):
    """A run broke, in words."""


def command(*arguments: object) -> list[str]:
    """One of the program, saving often."""
    return [sys.executable, "-c", PROGRAM, *map(str, arguments), "--checkpoint-every", "0.05"]


def results(run: Path) -> dict[str, bytes]:
    """All that a run leaves, but for the clock's part of it."""
    files = [file for name in KEPT for file in ((run / name).iterdir() if (run / name).is_dir() else [run / name])]
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def finish(run: Path, recipe: Path, *, may_refuse: bool = False) -> bool:
    """Let a run come to its end; whether it did, or refused in a sentence if it may."""
    done = subprocess.run(command("run", recipe, "--out", run), capture_output=True, text=True, check=False)
    if "Traceback" in done.stderr or done.returncode not in (0, 2):
        raise Found(f"ended with {done.returncode}: {done.stderr[-2000:]}")
    if done.returncode == 2 and not may_refuse:
        raise Found(f"would not go on: {done.stderr}")
    return done.returncode == 0


def killed(rng: random.Random, run: Path, recipe: Path) -> bool:
    """By kill -9 or politely, several times."""
    for _ in range(rng.randint(1, 4)):
        process = subprocess.Popen(command("run", recipe, "--out", run), stdout=-3, stderr=-3)
        time.sleep(rng.uniform(0.5, 6))
        process.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        process.wait()
    return finish(run, recipe)


def frozen(rng: random.Random, run: Path, recipe: Path) -> bool:
    """Stopped for a while; meanwhile another process tries the same folder."""
    process = subprocess.Popen(command("run", recipe, "--out", run), stdout=-3, stderr=-3)
    time.sleep(rng.uniform(0.5, 6))
    process.send_signal(signal.SIGSTOP)
    try:
        finish(run, recipe, may_refuse=True)
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()
    return finish(run, recipe)


def damaged(rng: random.Random, run: Path, recipe: Path) -> bool:
    """Some file of it, after it was stopped or is finished."""
    process = subprocess.Popen(command("run", recipe, "--out", run), stdout=-3, stderr=-3)
    time.sleep(rng.uniform(2, 12))
    process.kill()
    process.wait()
    files = [file for file in run.rglob("*") if file.is_file()] if run.exists() else []
    if files:
        file = rng.choice(files)
        content = bytearray(file.read_bytes() or b"\0")
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        file.write_bytes(rng.choice([bytes(content), bytes(content[:place]), b"", b"null", b"[" * 10**5]))
    return finish(run, recipe, may_refuse=True)


ATTACKS: list[Callable[[random.Random, Path, Path], bool]] = [killed, frozen, damaged]


def trial(seed: int, whole: dict[str, dict[str, bytes]], place: Path) -> str:
    """One attack on one run; what was done."""
    rng = random.Random(seed)
    turn, number = divmod(seed, len(ATTACKS))
    kind, attack = list(RECIPES)[(turn + number) % len(RECIPES)], ATTACKS[number]
    recipe, run = place / f"{kind.replace(' ', '-')}.toml", place / f"run{seed}"
    recipe.write_text(RECIPES[kind])
    if kind not in whole:
        finish(place / f"whole-{kind}", recipe)
        whole[kind] = results(place / f"whole-{kind}")
    ended = attack(rng, run, recipe)
    if ended and results(run) != whole[kind]:
        raise Found("it ended, and with other bytes")
    shutil.rmtree(run, ignore_errors=True)
    return f"{kind}, {attack.__name__}: {'the same bytes' if ended else 'refused in a sentence'}"


def main() -> int:
    """Attack until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="this trial alone")
    options = parser.parse_args()
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="idiolect-compiled-"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    whole: dict[str, dict[str, bytes]] = {}
    seed, until, found = options.only or options.seed * 1000, time.monotonic() + options.seconds, 0
    with tempfile.TemporaryDirectory(prefix="idiolect-attack-") as place:
        while True:
            try:
                print(f"trial {seed}: {trial(seed, whole, Path(place))}", flush=True)
            except Found as broken:
                found += 1
                print(f"trial {seed}: FOUND: {broken}", flush=True)
            seed += 1
            if options.only is not None or time.monotonic() > until:
                break
    print(f"{found} found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
