"""`idiolect export`, as a user meets it."""

import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import onnxruntime
import pytest

from idiolect import device
from idiolect.cli import main
from idiolect.device import read_bundle
from idiolect.errors import UserMistake
from idiolect.export.shared_model import shared_model
from idiolect.problems.data.datasets import load_images
from idiolect.problems.models.networks import mlp
from idiolect.quantization.layers import named_leaves, replace_leaves
from idiolect.results.run import open_run
from tests.small_bits import RECIPE, complaint


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipes") / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def run(recipe):
    out = recipe.parent / "run"
    assert main(["run", str(recipe), "--out", str(out)]) == 0
    return out


def test_one_client_becomes_a_bundle_and_a_graph_that_agree_with_its_model(run, tmp_path, capsys):
    assert main(["export", str(run), "--algorithm", "qupel", "--client", "0", "--out", str(tmp_path / "phone")]) == 0
    table = capsys.readouterr().out
    model, truth = mlp((8, 8, 1), 10, hidden=(24, 16), activation="relu"), open_run(run).compressed(0, "qupel")

    bundle = read_bundle(tmp_path / "phone.safetensors")
    for name, leaf in named_leaves(truth.params).items():
        np.testing.assert_array_equal(bundle.params[name], leaf)
    assert len(bundle.levels["0.weight"]) == 8
    assert bundle.about["client"] == 0
    images = load_images("digits").pixels[:200].astype(np.float32)
    images /= 255 if images.max() > 1 else 1
    params = replace_leaves(truth.params, bundle.params)
    logits = np.asarray(jax.jit(model.apply)(params, images, None))
    session = onnxruntime.InferenceSession(tmp_path / "phone.onnx", providers=["CPUExecutionProvider"])
    (ours,) = session.run(None, {"images": images})
    np.testing.assert_allclose(ours, logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(ours.argmax(1), logits.argmax(1))

    recorded = {c["client"]: c for c in json.loads((run / "cells" / "qupel-seed0.json").read_text())["clients"]}
    assert f"{recorded[0]['scores']['own']:.3f}" in table
    assert recorded[0]["bytes"] == sum(3 * -(-size // 8) + 32 for size in (64 * 24, 24 * 16)) + 4 * (
        24 + 16 + 16 * 10 + 10
    )
    assert (tmp_path / "phone.safetensors").stat().st_size < recorded[0]["bytes"] + 600  # its header


def test_a_run_tells_widths_sizes_and_groups_apart(run, recipe, capsys):
    summary = json.loads((run / "summary.json").read_text())
    assert summary["algorithms"]["qupel"]["bits"]["mean"] == pytest.approx((3 + 3 + 1 + 32) / 4)
    assert summary["algorithms"]["fedavg"]["bits"]["mean"] == 32
    cells = {label: json.loads((run / "cells" / f"{label}-seed0.json").read_text()) for label in ("qupel", "fedavg")}
    scores = {label: [client["scores"]["own"] for client in cell["clients"]] for label, cell in cells.items()}
    few = summary["groups"]["few"]["algorithms"]
    assert few["fedavg"]["mean"] == pytest.approx(scores["fedavg"][2])
    assert few["fedavg"]["gain"]["mean"] == pytest.approx(scores["fedavg"][2] - scores["qupel"][2])
    layers = cells["qupel"]["points"][-1]["layers"]
    assert {name: len(view["levels"]) for name, view in layers.items()} == {"0.weight": 8, "1.weight": 8}
    assert sum(layers["0.weight"]["counts"]) == 64 * 24
    page = (run / "report.html").read_text()
    for title in ("Weights around their levels", "Levels over virtual time", "Accuracy against bytes"):
        assert title in page
    assert main(["run", str(recipe), "--out", str(run)]) == 0  # nothing is left to do: the recipe reads back the same
    assert "few (1 clients), personalized: qupel" in capsys.readouterr().out


def test_a_group_of_strangers_is_refused(recipe, tmp_path, capsys):
    arguments = ["run", recipe, "--out", tmp_path / "run", "--set", "evaluation.groups.few=[4]"]
    assert "evaluation.groups.few has client 4, but clients are 0 to 3" in complaint(arguments, capsys)


def test_the_report_shows_what_exported_models_take_and_a_damaged_table_is_refused(run, tmp_path, capsys):
    own = shutil.copytree(run, tmp_path / "own")
    shutil.rmtree(own / "exports", ignore_errors=True)  # what other tests have measured
    assert main(["report", str(own)]) == 0
    assert "Where models run" not in (own / "report.html").read_text()
    for client in ("0", "1", "0"):
        files = ["--client", client, "--out", str(tmp_path / f"m{client}")]
        assert main(["export", str(own), "--algorithm", "qupel", *files]) == 0
    measured = open_run(own).exports("qupel")
    assert [(one.client, one.form) for one in measured] == [(0, "numpy"), (0, "onnx"), (1, "numpy"), (1, "onnx")]
    page = (own / "report.html").read_text()
    assert "Where models run" in page
    assert f"<td>{measured[0].disk:,}</td><td>{measured[0].resident:,}</td>" in page
    noted = own / "exports" / "qupel-seed0.json"
    whole = noted.read_text()
    for damaged in ("", "null", whole[:-9], whole.replace('"client": 0', '"client": 7'), "[" * 10**5):
        noted.write_text(damaged)
        assert "remove it, and export again" in complaint(["report", own], capsys)
    assert main(["export", str(own), "--algorithm", "qupel", "--client", "0", "--out", str(tmp_path / "again")]) == 0
    assert "The report is as before" in capsys.readouterr().out


def test_a_bundle_is_described_and_a_damaged_one_refused(run, tmp_path, capsys):
    out = tmp_path / "phone.safetensors"
    assert main(["export", str(run), "--algorithm", "qupel", "--client", "0", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["bundle", str(out)]) == 0
    text = capsys.readouterr().out
    assert "algorithm qupel" in text
    assert "64 x 24" in text
    assert "3 bits, 8 levels" in text
    content = out.read_bytes()
    for damaged in (content[:-1], content[:100], content[:-40] + b"\0" * 40, b""):
        out.write_bytes(damaged)
        assert "phone.safetensors" in complaint(["bundle", out], capsys)
    alone = subprocess.run([sys.executable, "-m", device.__name__, out], capture_output=True, text=True, check=False)
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1


def test_the_score_in_the_table_is_that_of_the_exported_model(run):
    models, clients = open_run(run).models("qupel"), open_run(run).cell("qupel").clients
    model, test = mlp((8, 8, 1), 10, hidden=(24, 16), activation="relu"), models.problem.clients.test
    for client in range(4):
        rows = slice(test.starts[client], test.starts[client] + test.sizes[client])
        images, labels = np.asarray(test.rows["image"][rows], np.float32), np.asarray(test.rows["label"][rows])
        images = images / 255 if test.rows["image"].dtype == np.uint8 else images
        found = np.asarray(model.apply(models.compressed(client).params, images, None)).argmax(1)
        assert np.mean(found == labels) == pytest.approx(clients[client].scores["own"], abs=1e-6)


def test_all_clients_with_a_table_of_bits_bytes_and_scores(run, tmp_path, capsys):
    assert main(["export", str(run), "--algorithm", "qupel", "--all", "--out", str(tmp_path / "fleet")]) == 0
    table = capsys.readouterr().out
    assert len(list((tmp_path / "fleet").iterdir())) == 8
    written, ran = table.split("run on this machine")
    rows = [line.split("│")[1:6] for line in written.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows] == ["3", "3", "1", "32"]
    assert rows[3][3].strip() == "100.0%"
    measured = [[cell.strip() for cell in line.split("│")[1:7]] for line in ran.splitlines() if line.startswith("│")]
    assert [row[:2] for row in measured] == [[str(k), form] for k in range(4) for form in ("numpy", "onnx")]
    for client, form, disk, memory, spent, accuracy in measured:
        suffix = {"numpy": "safetensors", "onnx": "onnx"}[form]
        assert int(disk.replace(",", "")) == (tmp_path / "fleet" / f"client{client}.{suffix}").stat().st_size
        assert int(memory.replace(",", "")) < 50 * 2**20
        assert float(spent) > 0
        assert accuracy == rows[int(client)][4].strip()  # the files are as good as the models in the run
    sizes = [read_bundle(tmp_path / "fleet" / f"client{k}.safetensors") for k in range(4)]
    assert [len(bundle.levels.get("0.weight", [])) for bundle in sizes] == [8, 8, 2, 0]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_is_written_measured_and_as_good_as_the_model(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no cell of the tables is wrapped
    arguments = ["export", str(run), "--algorithm", "qupel", "--client", "2", "--c", "--int4", "--int8", "--out"]
    assert main([*arguments, str(tmp_path / "phone")]) == 0
    found = {path.name for path in tmp_path.iterdir()}
    graphs = {"phone.onnx", "phone.int4.onnx", "phone.int8.onnx"}
    assert found == {"phone.safetensors", "phone.c", "phone.h", "idiolect.c", "idiolect.h"} | graphs
    written, ran = capsys.readouterr().out.split("run on this machine")
    score = next(line for line in written.splitlines() if line.startswith("│")).split("│")[5].strip()
    rows = [line.split("│") for line in ran.splitlines() if line.startswith("│")]
    scores = {row[2].strip(): row[6].strip() for row in rows}
    assert scores.keys() == {"numpy", "onnx", "onnx int4", "onnx int8", "c"}
    assert scores["numpy"] == scores["onnx"] == scores["c"] == score
    assert scores["onnx int4"] == score  # one bit is exact on a grid
    assert float(scores["onnx int8"]) > float(score) - 0.2


def test_a_bundle_says_how_good_it_is_and_a_graph_says_the_same(run, tmp_path, capsys):
    assert main(["export", str(run), "--algorithm", "qupel", "--client", "0", "--out", str(tmp_path / "phone")]) == 0
    models, about = open_run(run).models("qupel"), read_bundle(tmp_path / "phone.safetensors").about
    model, rows = mlp((8, 8, 1), 10, hidden=(24, 16), activation="relu"), models.problem.clients.validation
    own = slice(rows.starts[0], rows.starts[0] + rows.sizes[0])
    images, labels = np.asarray(rows.rows["image"][own], np.float32), np.asarray(rows.rows["label"][own])
    images = images / 255 if rows.rows["image"].dtype == np.uint8 else images
    found = np.asarray(model.apply(models.compressed(0).params, images, None)).argmax(1)
    assert about["validation_score"] == pytest.approx(np.mean(found == labels), abs=1e-5)
    assert {key: about[key] for key in ("recipe", "algorithm", "client", "metric")} == {
        "recipe": "small",
        "algorithm": "qupel",
        "client": 0,
        "metric": "accuracy",
    }
    capsys.readouterr()
    assert main(["bundle", str(tmp_path / "phone.onnx")]) == 0
    assert f"validation_score {about['validation_score']}" in capsys.readouterr().out


def test_models_without_levels_are_exported_too(run, tmp_path):
    out = tmp_path / "plain.safetensors"
    assert main(["export", str(run), "--algorithm", "fedavg", "--client", "1", "--out", str(out)]) == 0
    assert read_bundle(out).levels == {}
    assert [path.name for path in tmp_path.iterdir()] == ["plain.safetensors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--client", "9", "--algorithm", "qupel"], "client is 9, but the run has clients 0 to 3"),
        (["--client", "0"], "algorithm is missing; the run has qupel, fedavg"),
        (["--client", "0", "--algorithm", "sgd"], "algorithm is 'sgd'; the run has qupel, fedavg"),
        (["--client", "0", "--algorithm", "qupel", "--seed", "7"], "seed 7; its seeds are [0]"),
    ],
)
def test_mistakes_of_export(run, tmp_path, capsys, arguments, message):
    assert message in complaint(["export", run, *arguments, "--out", tmp_path / "m"], capsys)
    assert list(tmp_path.iterdir()) == []


def test_files_and_folders_that_cannot_be(run, tmp_path, capsys):
    one = ["--client", "0", "--algorithm", "qupel", "--out"]
    assert "ends in '.pt'" in complaint(["export", run, *one, tmp_path / "m.pt"], capsys)
    assert "does not exist" in complaint(["export", run, *one, tmp_path / "no" / "m"], capsys)
    assert "is no run folder" in complaint(["export", tmp_path, *one, tmp_path / "m"], capsys)
    broken = shutil.copytree(run, tmp_path / "broken")
    tensors = broken / "params" / "qupel-seed0.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-100])
    assert "is damaged" in complaint(["export", broken, *one, tmp_path / "m"], capsys)
    assert not list(tmp_path.glob("m*"))


def test_the_shared_model_is_what_the_server_held(run, tmp_path, capsys):
    arguments = ["export", str(run), "--algorithm", "fedavg", "--shared", "--out", str(tmp_path / "all")]
    assert main(arguments) == 0
    assert "shared" in capsys.readouterr().out
    bundle, held = read_bundle(tmp_path / "all.safetensors"), open_run(run).models("fedavg").snapshot.params
    for name, leaf in named_leaves(held).items():
        np.testing.assert_array_equal(bundle.params[name], leaf)
    assert bundle.about["client"] == "shared"
    images = load_images("digits").pixels[:50]
    session = onnxruntime.InferenceSession(tmp_path / "all.onnx", providers=["CPUExecutionProvider"])
    logits = mlp((8, 8, 1), 10, hidden=(24, 16), activation="relu").apply(held, images, None)
    np.testing.assert_allclose(session.run(None, {"images": images})[0], logits, rtol=1e-4, atol=1e-4)
    assert "--int8 looks at images of the client whose model it is" in complaint([*arguments, "--int8"], capsys)


def test_models_that_are_not_shared_as_a_whole_are_refused(run):
    models = open_run(run).models("fedavg")
    with pytest.raises(UserMistake, match="fedavg shares none"):
        shared_model(models, shares=False)
    part = jax.tree.map(lambda leaf: leaf, models.snapshot.params)
    kept = models._replace(snapshot=models.snapshot._replace(params=jax.tree.leaves(part)[0]))
    with pytest.raises(UserMistake, match="clients of fedavg keep a part"):
        shared_model(kept, shares=True)
    measuring = models.problem._replace(calibrate=lambda params, shard: jax.tree.map(lambda leaf: leaf + 1, params))
    with pytest.raises(UserMistake, match="each client has statistics of its own"):
        shared_model(models._replace(problem=measuring), shares=True)
