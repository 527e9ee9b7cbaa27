"""Trackers hear every point of every algorithm and seed, and cannot hurt a run; real ones, where they are there."""

import struct
import sys

import pytest

import idiolect
from idiolect.cli import main
from idiolect.tracking import TRACKERS, listening, values_of
from idiolect.tracking.tracker_kinds import Tracker
from tests.tiny_run import CELLS, tiny

POINTS = 3  # at time 0 and at two more
KEY = "participating/own/worst_decile"


def numbers(folder):
    """What a run has learned, but for the clock's part of it."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("params/*"))}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A run that a listener heard of, through the command line; what it heard, and the run."""
    folder, heard, closed = tmp_path_factory.mktemp("told"), [], []
    with pytest.MonkeyPatch.context() as patch:
        ears = Tracker(lambda *what: heard.append(what), lambda: closed.append(True))
        patch.setitem(TRACKERS, "tensorboard", lambda experiment, out: ears)
        assert main(["run", tiny(folder), "--out", str(folder / "out"), "--track", "tensorboard"]) == 0
    assert closed == [True]
    return heard, folder / "out"


def test_every_point_of_every_algorithm_and_seed_is_told_as_the_folder_has_it(told):
    heard, out = told
    run = idiolect.open_run(out)
    expected = [(cell.label, cell.seed, point.time, values_of(point)) for cell in run.cells for point in cell.points]
    assert len(heard) == POINTS * len(CELLS)
    assert sorted(heard, key=repr) == sorted(expected, key=repr)
    values = heard[-1][3]
    assert {"participating/own/mean", KEY, "unseen/0/std", "clients/own/lowest", "updates"} <= set(values)


def test_a_tracker_that_fails_is_left_out_once_and_the_run_is_the_same(told, tmp_path, monkeypatch, capsys):
    calls = []

    def fail(*what):
        calls.append(what)
        raise ConnectionError("nobody home")

    monkeypatch.setitem(TRACKERS, "wandb", lambda experiment, out: Tracker(fail, fail))
    assert main(["run", tiny(tmp_path), "--out", str(tmp_path / "out"), "--track", "wandb"]) == 0
    assert len(calls) == 1
    said = "track wandb has failed (ConnectionError: nobody home); the run goes on without it"
    assert said in capsys.readouterr().err
    assert numbers(tmp_path / "out") == numbers(told[1])


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "tensorboardX"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_a_library_that_is_missing_is_one_sentence_before_anything_is_written(
    name, module, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["run", tiny(tmp_path), "--out", str(tmp_path / "out"), "--track", name]) == 2
    assert (
        capsys.readouterr().err
        == f"idiolect: track is '{name}', which needs {module}; pip install 'idiolect[{name}]'\n"
    )
    assert not (tmp_path / "out").exists()


def experiment():
    return idiolect.Experiment(
        idiolect.Choice("quadratics", {"clients": 3}),
        ["fedavg", "rasgp"],
        horizon=40.0,
        evaluation=idiolect.Evaluation(points=2),
        name="tracked",
    )


def tracked(name, folder):
    said = []
    with listening([name], experiment(), folder / "run", said.append) as listen:
        run = idiolect.run(experiment(), out=folder / "run", listen=listen)
    assert said == []
    return {(cell.label, point.time): values_of(point) for cell in run.cells for point in cell.points}


def test_tensorboard_has_every_number(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed: pip install 'idiolect[tensorboard]'")
    from tensorboardX.proto.event_pb2 import Event

    expected = tracked("tensorboard", tmp_path)
    for label in ("fedavg", "rasgp"):
        (file,) = (tmp_path / "run" / "tensorboard" / f"{label}-seed0").iterdir()
        content, found, at = file.read_bytes(), {}, 0
        while at < len(content):
            (size,) = struct.unpack_from("<Q", content, at)
            event = Event.FromString(content[at + 12 : at + 12 + size])
            found |= {(one.tag, event.step): one.simple_value for one in event.summary.value}
            at += 16 + size
        mine = {time: values for (name, time), values in expected.items() if name == label}
        assert {step for _, step in found} == {round(time) for time in mine}
        for time, values in mine.items():
            for name, value in values.items():
                assert found[name, round(time)] == pytest.approx(value, rel=1e-6)


def test_mlflow_has_every_number(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'idiolect[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    expected = tracked("mlflow", tmp_path)
    client = mlflow.MlflowClient()
    runs = client.search_runs([client.get_experiment_by_name("tracked").experiment_id])
    assert {run.data.params["algorithm"] for run in runs} == {"fedavg", "rasgp"}
    for run in runs:
        history = client.get_metric_history(run.info.run_id, KEY)
        mine = {
            round(t): values[KEY] for (label, t), values in expected.items() if label == run.data.params["algorithm"]
        }
        assert {one.step: one.value for one in history} == pytest.approx(mine)
        assert run.info.status == "FINISHED"


def test_wandb_runs_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="Weights & Biases is not installed: pip install 'idiolect[wandb]'")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    tracked("wandb", tmp_path)
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 2


def test_a_result_shows_itself_in_a_notebook():
    problem = idiolect.problems.synthetic.quadratics(clients=3)
    result = idiolect.learn(problem, "fedavg", horizon=40.0, points=1)
    page = result._repr_html_()
    spread = result.points[-1].scores["participating"]["own"]
    assert f"<td>own<td>{spread.mean:.4g}<td>{spread.std:.4g}<td>{spread.worst_decile:.4g}<td>3" in page
    assert "fedavg, seed 0: loss at time 40" in page
