"""A run as whoever watches it sees it, at several moments; from files alone, and without leaving any."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import idiolect
from idiolect.cli import main
from idiolect.errors import Interrupted, UserMistake
from idiolect.network import rounds, timeline, topology
from idiolect.network.at_work import Ages, Arriving, working
from idiolect.results import progress_files
from idiolect.results.folder import RunFolder
from idiolect.results.progress_reading import standing
from idiolect.results.seals import sealed
from idiolect.watching import watcher
from idiolect.watching.view import ago

HORIZON, POINTS = 20.0, 4


def experiment():
    return idiolect.Experiment(
        idiolect.Choice("quadratics", {"clients": 6, "dimension": 2, "samples": 8}),
        ["fedasync"],
        horizon=HORIZON,
        training={"step_size": 0.01, "local_steps": 1, "batch_size": 4},
        evaluation=idiolect.Evaluation(points=POINTS),
        attack=idiolect.Attack([5], "nan"),
        name="watched",
    )


def files_in(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """What was seen of a run: before its first point, at each, once it was stopped, gone on with, and at its end."""
    out, seen = tmp_path_factory.mktemp("watched") / "run", dict[str, object]()

    def look(name: str) -> None:
        before = files_in(out)
        seen[name] = watcher(out)()
        assert files_in(out) == before, "who watches writes nothing"

    def hear(label, seed, point):
        look(f"point {point.time:g}")
        if point.time == 10.0 and "stopped" not in seen:
            asked.append(1)

    asked = list[int]()
    heard = {"listen": hear, "stop": lambda: bool(asked)}
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(progress_files, "_EVERY", 0.0)
        with pytest.raises(Interrupted):
            idiolect.run(experiment(), out=out, progress=lambda state: state.compiling and look("before"), **heard)
    shutil.copytree(out, out.with_name("halfway"))
    look("stopped")
    asked.clear()
    idiolect.run(experiment(), out=out, listen=hear, progress=lambda state: look("again") if state.compiling else None)
    look("finished")
    return out, seen


def row_of(view):
    table = next(table for table in view.tables if table.title == "Every algorithm and seed")
    return dict(zip(table.columns, table.rows[0], strict=True))


def test_before_the_first_point_it_is_being_prepared(watched):
    before = watched[1]["before"]
    assert (before.title, before.state, before.figures) == ("watched", "under way", [])
    assert before.status == "0 of 1 cells are finished; it is being prepared"
    assert row_of(before)["state"] == "waits"


def test_curves_grow_and_say_who_works_how_old_things_are_and_what_is_refused(watched):
    out, seen = watched
    run = idiolect.open_run(out)
    (record,) = run.cells
    assert seen["point 0"].figures[0].data[0]["x"] == [0.0]
    view = seen["point 10"]
    scores, stale = view.figures
    assert view.state == "under way"
    assert scores.data[0]["x"] == [0.0, 5.0, 10.0]
    assert scores.data[0]["y"] == [point.scores["participating"]["1"].mean for point in record.points[:3]]
    table = run.timeline()
    assert stale.data[0]["y"][1] == Arriving(table).between(0.0, 5.0).mean
    row = row_of(view)
    assert (row["state"], row["virtual time"]) == ("at work", "10")
    assert int(row["refused"]) > 0
    refused = next(one for one in view.tables if one.title == "What was refused")
    assert [line[2:4] for line in refused.rows] == [["client 5", "not finite"]]
    busy = next(one for one in view.tables if one.title == "Who works now")
    assert {line[3]: line[5] for line in busy.rows} == {
        doing: ", ".join(map(str, clients)) for doing, clients in working(table, 10.0).items()
    }


def test_who_stops_is_told_how_to_go_on_and_what_goes_on_has_its_old_points(watched):
    out, seen = watched
    stopped = seen["stopped"]
    assert (stopped.state, stopped.over) == ("stopped", True)
    assert stopped.status == f"0 of 1 cells are finished; go on with: idiolect resume {out}"
    assert row_of(stopped)["state"] == "begun"
    assert seen["again"].figures[0].data[0]["x"] == [0.0, 5.0, 10.0]
    assert seen["point 15"].figures[0].data[0]["x"] == [0.0, 5.0, 10.0, 15.0]


def test_at_the_end_all_is_there_and_nothing_of_the_progress(watched):
    out, seen = watched
    view = seen["finished"]
    assert (view.state, view.over, view.notes) == ("finished", True, [])
    assert view.figures[0].data[0]["x"] == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert view.figures[1].data[0]["y"][:3] == seen["point 10"].figures[1].data[0]["y"]
    assert row_of(view)["state"] == "finished"
    assert list((out / "progress").iterdir()) == []


@pytest.fixture
def halfway(watched, tmp_path):
    shutil.copytree(watched[0].with_name("halfway"), tmp_path / "run")
    return tmp_path / "run"


def say_again(out: Path, **changes: object) -> None:
    """Seal what a run last said of itself, with some of it changed."""
    path, folder = out / "progress" / "now.json", RunFolder(out)
    record = json.loads(path.read_text())
    record = {name: value for name, value in record.items() if name not in ("format", "belongs_to", "digest")}
    path.write_bytes(sealed({**record, **changes}, folder.owner("progress", "now", 0)))


def test_the_dead_the_slow_and_the_far_away_are_told_apart(halfway, monkeypatch):
    say_again(halfway, state="running", written=time.time() - 100)
    view = watcher(halfway)()
    assert view.state == "under way"
    assert "nothing new for 2 min, but its process lives" in view.status
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    view = watcher(halfway)()
    assert view.state == "silent"
    assert "it may be slow, or dead" in view.status
    say_again(halfway, state="running", written=time.time())
    assert watcher(halfway)().state == "under way", "it has just said something"
    monkeypatch.undo()
    say_again(halfway, state="running", pid=2**22 + 1, written=time.time())
    view = watcher(halfway)()
    assert view.state == "died"
    done = f"0 of 1 cells are finished; go on with: idiolect resume {halfway}"
    assert view.status == f"its process is gone without a word, and last said something {ago(0)} ago; {done}"
    say_again(halfway, state="running", pid=os.getpid(), began=1.0)
    assert watcher(halfway)().state == "died", "another process has its number"


def test_a_run_that_failed_says_why(watched, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(watched[0], out)
    (out / "cells" / "fedasync-seed0.json").write_text("{}")
    with pytest.raises(UserMistake):
        idiolect.run(experiment(), out=out)
    view = watcher(out)()
    assert view.state == "stopped"
    assert "fedasync-seed0.json was written by another version" in view.status
    assert view.notes == [view.status.split("; 0 of 1")[0]]


def test_damaged_lines_are_left_out_and_counted(halfway):
    path = halfway / "progress" / "fedasync-seed0.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b"participating", b"participatinh") + b"null\n" + third + third[:40])
    view = watcher(halfway)()
    assert view.figures[0].data[0]["x"] == [0.0, 10.0]
    assert view.notes == [f"{path} has damaged lines, which are left out: 2"]


def test_a_run_that_cannot_write_its_progress_says_so_once_and_goes_on(watched, tmp_path, monkeypatch):
    out, said = tmp_path / "run", list[str]()

    def refuse(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(progress_files, "_put", refuse)
    idiolect.run(experiment(), out=out, notice=said.append)
    assert [line for line in said if "nobody can watch the run" in line] == [
        f"{out / 'progress' / 'now.json'} cannot be written: No space left on device; nobody can watch the run"
    ]
    assert (out / "metrics.jsonl").read_bytes() == (watched[0] / "metrics.jsonl").read_bytes()


def test_who_works_and_how_old_things_are_is_read_off_the_table():
    table = timeline(
        [0, 1, 0], offered=[0.0, 0.0, 2.0], received=[0.2, 1.0, 2.1], computed=[0.5, 4.0, 2.5], arrived=[1.0, 5.0, 3.0]
    )
    assert working(table, 0.1) == {"downloads": [0, 1]}
    assert working(table, 2.2) == {"computes": [0, 1]}
    assert working(table, 4.5) == {"uploads": [1]}
    assert Arriving(table).between(0.0, 4.0) == Ages(2, 0.0, 0)
    assert Arriving(table).between(4.0, 9.0) == Ages(1, 2.0, 2)
    assert Arriving(table).between(5.0, 9.0) is None
    awake = rounds(
        topology(2, [(0, 1), (1, 0)]), [[True, True], [False, True], [True, True]], [(0, 1, 0, 2), (1, 0, 1, 1)]
    )
    assert [working(awake, at) for at in (0.0, 1.0, 3.0)] == [{"is awake": [0, 1]}, {"is awake": [1]}, {}]
    assert Arriving(awake).between(0.0, 2.0) == Ages(2, 1.0, 2)


def test_a_run_from_before_there_was_progress_stands_by_its_cells():
    assert standing(None, True) == "finished"
    assert standing(None, False) == "stopped"


@pytest.mark.parametrize("what", ["nothing", "a file", "an empty folder"])
def test_what_cannot_be_watched_is_one_sentence(what, tmp_path, capsys):
    path = tmp_path / "here"
    if what == "a file":
        path.write_text("")
    elif what != "nothing":
        path.mkdir()
    assert main(["watch", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"idiolect: {path} cannot be watched: it is no folder of a run or a server")
    assert said.count("\n") == 1
