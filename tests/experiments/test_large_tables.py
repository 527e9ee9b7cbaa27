"""Runs whose timelines are large: kept as compressed columns, and otherwise the runs they would be."""

import numpy as np
import pytest

from idiolect import Choice, Experiment, UserMistake, open_run, run
from idiolect.network import drawn_timelines, read_timeline
from idiolect.results import folder

FEW = 4  # turns, beyond which a timeline is called large here


@pytest.fixture
def nothing_is_small(monkeypatch):
    monkeypatch.setattr(folder, "LARGE", FEW)
    for draw in (drawn_timelines.draw_timeline, drawn_timelines.draw_counted):
        monkeypatch.setitem(draw.__kwdefaults__, "large", FEW)


def experiment(**changes):
    problem = Choice("quadratics", {"clients": 5, "dimension": 3})
    return Experiment(problem, ["fedasync", "fedavg"], horizon=30.0, training={"step_size": 0.02}, **changes)


def test_a_run_on_a_large_timeline_is_the_run_it_would_be(tmp_path, nothing_is_small, monkeypatch):
    large = run(experiment(), out=tmp_path / "large")
    monkeypatch.undo()
    small = run(experiment(), out=tmp_path / "small")
    for label in ("fedasync", "fedavg"):
        file = tmp_path / "large" / "timelines" / f"{label}-seed0.turns.npz"
        assert file.is_file()
        assert not (tmp_path / "large" / "timelines" / f"{label}-seed0.csv").exists()
        for mine, theirs in zip(large.timeline(label), small.timeline(label), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        for name, tensor in small.parameters(label).items():
            assert tensor.tobytes() == large.parameters(label)[name].tobytes()
        params = [path / "params" / f"{label}-seed0.safetensors" for path in (large.path, small.path)]
        assert params[0].read_bytes() == params[1].read_bytes()


def test_it_is_replayed_from_its_file(tmp_path, nothing_is_small):
    first = run(experiment().replace(algorithms=["fedasync"]), out=tmp_path / "first")
    file = tmp_path / "first" / "timelines" / "fedasync-seed0.turns.npz"
    again = run(experiment(timeline=str(file)).replace(algorithms=["fedasync"]), out=tmp_path / "again")
    for name, tensor in first.parameters().items():
        assert tensor.tobytes() == again.parameters()[name].tobytes()
    assert read_timeline(file).turns == again.timeline().turns


def test_damage_shows_before_anything_is_read(tmp_path, nothing_is_small):
    run(experiment().replace(algorithms=["fedasync"]), out=tmp_path / "mine")
    file = tmp_path / "mine" / "timelines" / "fedasync-seed0.turns.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(UserMistake, match="its digest is not the one"):
        open_run(tmp_path / "mine").timeline()
