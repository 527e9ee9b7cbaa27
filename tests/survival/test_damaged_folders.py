"""Every kind of file of a run, damaged in every way: one sentence, or the same results; never a traceback."""

import io
import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from safetensors.numpy import load, save

from idiolect import catalog
from idiolect.cli import main
from idiolect.contracts import Problem
from idiolect.errors import UserMistake
from idiolect.problems.synthetic import quadratics
from idiolect.results.folder import RunFolder
from idiolect.results.progress_files import point_facts
from idiolect.results.seals import sealed
from idiolect.watching import page_server, watcher

RECIPE = """
seeds = [0, 1]
horizon = 40

[problem]
name = "quadratics_with_a_rival"
clients = 3

[training]
local_steps = 1
batch_size = 4

[evaluation]
points = 2
references = ["rival"]

[[algorithms]]
name = "fedavg"

[[algorithms]]
name = "sgp"
"""
# A file of every kind, and another of the same kind to swap it with.
KINDS = {
    "recipe": ("recipe.toml", "recipe.toml"),
    "cell": ("cells/fedavg-seed0.json", "cells/fedavg-seed1.json"),
    "cell without a server": ("cells/sgp-seed1.json", "cells/sgp-seed0.json"),
    "parameters": ("params/fedavg-seed0.safetensors", "params/sgp-seed0.safetensors"),
    "timeline": ("timelines/fedavg-seed0.csv", "timelines/fedavg-seed1.csv"),
    "rounds": ("timelines/sgp-seed0.npz", "timelines/sgp-seed1.npz"),
    "reference": ("references/rival-seed0.json", "references/rival-seed1.json"),
    "traits": ("traits/seed0.json", "traits/seed1.json"),
    "checkpoint": ("checkpoints/fedavg-seed0.a.safetensors", "params/fedavg-seed0.safetensors"),
    "summary": ("summary.json", "metrics.jsonl"),
    "metrics": ("metrics.jsonl", "summary.json"),
    "clients": ("clients.csv", "metrics.jsonl"),
    "report": ("report.html", "summary.json"),
    "lock": (".lock", "summary.json"),
    "progress": ("progress/now.json", "summary.json"),
    "points": ("progress/fedavg-seed0.jsonl", "summary.json"),
}
DERIVED = ("summary", "metrics", "clients", "report", "reference", "traits", "checkpoint", "progress", "points")

WATCHED = ("cell", "cell without a server", "timeline", "rounds", "progress")  # what `watch` cannot do without


def a_last_word(run: Path) -> bytes:
    """What a run that was stopped last said of itself."""
    said = {"state": "stopped", "why": "", "pid": 1, "began": 0.0, "host": "x", "written": 0.0, "at_work": []}
    return sealed(said, RunFolder(run).owner("progress", "now", 0))


def some_points(run: Path) -> bytes:
    """The points of a cell that is not finished."""
    folder = RunFolder(run)
    points, owner = folder.cell("fedavg", 0).points, folder.owner("progress", "fedavg", 0)
    facts = [{**point_facts(point, None), "metric": "loss", "higher_is_better": False} for point in points]
    return b"".join(sealed(one, owner) + b"\n" for one in facts)


PROGRESS = {"progress": a_last_word, "points": some_points}


@catalog.PROBLEMS
def quadratics_with_a_rival(*, clients: int = 3, seed: int = 0) -> Problem:
    """Quadratics, and something that scores the same everywhere."""
    problem = quadratics(clients=clients, dimension=2, samples=8, seed=seed)
    return problem._replace(references={"rival": lambda split: np.ones((1, clients))})


def flipped(content: bytes) -> bytes:
    place = len(content) * 2 // 3
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :] if content else b"\x04"


def other_types(content: bytes, name: str) -> bytes:
    """The same content with numbers of another type."""
    if name.endswith(".safetensors"):
        return save({k: v.astype(np.float64) for k, v in load(content).items()}) if content else b""
    if name.endswith(".npz"):
        packed = io.BytesIO()
        np.savez(packed, **{k: v.astype(np.float32) for k, v in np.load(io.BytesIO(content)).items()})
        return packed.getvalue()
    if name.endswith(".json"):
        return json.dumps(json.loads(content), indent=1).replace(": 0", ': "0"').replace(": 1", ": [1]").encode()
    return content.replace(b"0", b"\xff")


def in_place(change: Callable[[bytes], bytes]) -> Callable[[Path, Path], None]:
    return lambda path, other: path.write_bytes(change(path.read_bytes()))  # type: ignore[func-returns-value]


def unreadable(path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe(path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGE: dict[str, Callable[[Path, Path], None]] = {
    "truncated": in_place(lambda content: content[: len(content) // 2]),
    "flipped": in_place(flipped),
    "empty": in_place(lambda content: b""),
    "swapped": lambda path, other: path.write_bytes(other.read_bytes()),  # type: ignore[dict-item, return-value]
    "null": in_place(lambda content: b"null"),
    "zeros": in_place(lambda content: bytes(len(content))),
    "deep": in_place(lambda content: b"[" * 100_000),
    "long numbers": in_place(lambda content: b'{"format": ' + b"9" * 5000 + b"}"),
    "other types": lambda path, other: path.write_bytes(other_types(path.read_bytes(), path.name)),  # type: ignore[dict-item, return-value]
    "unreadable": unreadable,
    "pipe": pipe,
}


class Attempt:
    """What the commands make of a folder."""

    def __init__(self, run: Path, out: Path) -> None:
        self.watched = watched(run)
        self.said = list[str]()
        self.resumed = None if self._ran("resume", run) is None else kept(run)
        self.reported = self._ran("report", run, "--out", out / "page.html")
        self.compared = self._ran("compare", run, "--json")
        model = out / "model.safetensors"
        whose = ("--client", 0, "--algorithm", "fedavg", "--seed", 0, "--out", model)
        self.exported = None if self._ran("export", run, *whose) is None else model.read_bytes()

    def _ran(self, command: str, run: Path, *arguments: Any) -> str | None:
        """What a command prints; or nothing, if it says what is wrong in a sentence."""
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            code = main([command, str(run), *map(str, arguments)])
        lines = errors.getvalue().splitlines()
        assert all(line.startswith("idiolect: ") and len(line) < 600 for line in lines), lines
        assert code in (0, 2), lines
        self.said += lines[-1:] if code else []
        return None if code else output.getvalue().replace(str(run), "RUN")


def watched(run: Path) -> dict[str, Any]:
    """What the page of `idiolect watch` is told: how it stands, or one sentence on what cannot be read."""
    try:
        look = watcher(run)
    except UserMistake as mistake:
        return {"state": "cannot be watched", "status": str(mistake), "notes": []}
    with page_server(look, port=0) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            with urlopen(f"http://127.0.0.1:{server.server_address[1]}/state.json", timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
        finally:
            server.shutdown()
    assert all(len(line) < 600 and "\n" not in line for line in [found["status"], *found["notes"]]), found
    assert found["state"] in ("finished", "stopped", "cannot be read"), found
    return found


def kept(run: Path) -> dict[str, bytes]:
    """What a run comes to, but for the clock's part of it."""
    names = ["metrics.jsonl", "clients.csv", *(first for first, _ in KINDS.values() if first.startswith(("pa", "ti")))]
    return {name: (run / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, with a checkpoint that a killed process has left."""
    place = tmp_path_factory.mktemp("whole")
    (place / "mine.toml").write_text(RECIPE)
    assert main(["run", str(place / "mine.toml"), "--out", str(place / "run")]) == 0
    return place / "run"


@pytest.fixture(scope="module")
def expected(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Attempt:
    place = tmp_path_factory.mktemp("intact")
    shutil.copytree(whole, place / "run")
    found = Attempt(place / "run", place)
    assert found.said == []
    return found


# Every kind and every damage at least once; all pairs in `make slow`.
FEW = [(kind, list(DAMAGE)[place % len(DAMAGE)]) for place, kind in enumerate(KINDS)]
ALL = [
    pytest.param(kind, damage, marks=() if (kind, damage) in FEW else pytest.mark.slow)
    for kind in KINDS
    for damage in DAMAGE
]


@pytest.mark.parametrize(("kind", "damage"), ALL)
def test_what_is_damaged_is_told_in_a_sentence_or_made_anew(kind, damage, whole, expected, tmp_path):
    name, other = KINDS[kind]
    damaged = tmp_path / "damaged" / "run"
    shutil.copytree(whole, damaged)
    if kind == "checkpoint":
        damaged.joinpath(name).write_bytes(damaged.joinpath(other).read_bytes())
    if kind in PROGRESS:
        damaged.joinpath(name).write_bytes(PROGRESS[kind](damaged))
        for finished in ("cells/fedavg-seed0.json",) if kind == "points" else ():
            damaged.joinpath(finished).unlink()
    before = damaged.joinpath(name).read_bytes()
    DAMAGE[damage](damaged / name, damaged / other)
    changed = not damaged.joinpath(name).is_file() or damaged.joinpath(name).read_bytes() != before
    found = Attempt(damaged, tmp_path)
    if kind in WATCHED and changed:
        told = [found.watched["status"], *found.watched["notes"]]
        assert any(name in sentence for sentence in told), "who watches is told what cannot be read"
    for asked in ("resumed", "compared", "exported"):
        result = getattr(found, asked)
        assert result is None or result == getattr(expected, asked), f"{asked}, and is something else"
    if kind in DERIVED and damage != "unreadable":  # a folder in the place of a file is in the way
        assert found.said == [], "what is derived is made anew"
    elif kind not in ("lock", *DERIVED) and changed:
        assert found.resumed is None, "results that are not what they were are not gone on with"
        assert kind == "recipe" or any(name in sentence for sentence in found.said)


def test_a_cell_in_place_of_another_is_named(whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    shutil.copy(run / "cells" / "fedavg-seed0.json", run / "cells" / "fedavg-seed1.json")
    assert main(["resume", str(run)]) == 2
    assert "fedavg-seed1.json does not belong here: its seed is '0', not 1" in capsys.readouterr().err


def test_a_cell_of_another_experiment_is_named(whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("local_steps = 1", "local_steps = 2"))
    assert main(["resume", str(run)]) == 2
    assert "is of another experiment than the folder's recipe.toml" in capsys.readouterr().err


def test_a_cell_of_an_earlier_format_is_told_in_one_sentence(whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    cell = run / "cells" / "fedavg-seed0.json"
    cell.write_text(json.dumps({**json.loads(cell.read_text()), "format": 5}))
    assert main(["resume", str(run)]) == 2
    said = capsys.readouterr().err
    assert "was written by another version of idiolect; run its recipe in a new folder" in said


def test_what_a_killed_process_saved_of_a_finished_cell_goes(whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    left = run / "checkpoints" / "fedavg-seed0.a.safetensors"
    left.write_bytes(b"something")
    assert main(["resume", str(run)]) == 0
    assert not left.exists()
