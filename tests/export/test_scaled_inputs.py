"""Inputs of mean 0 and deviation 1: by whose numbers, and that exported models take them as they were."""

import json
import subprocess

import jax
import numpy as np
import onnx
import onnxruntime
import pytest

import idiolect
from idiolect.contracts import Scaling, uncompressed
from idiolect.data import table
from idiolect.device import predict, read_bundle
from idiolect.export.bundle import write_bundle
from idiolect.export.measuring import compiled
from idiolect.export.onnx_models import onnx_bytes
from idiolect.export.plans import plan
from idiolect.problems.images import image_problem
from idiolect.problems.models import linear
from tests.device.small_nets import CLASSES, IMAGES, SHAPE, built

SCALING = Scaling((0.2, -0.1), (0.3, 0.05))
TABLES = [
    {"name": "mlp", "hidden": [5]},
    {"name": "cnn", "channels": [4], "kernel": 4, "hidden": []},
    pytest.param({"name": "resnet", "depth": 8, "width": 3}, marks=pytest.mark.slow),
]


def in_onnx(content, images):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"images": images})[0]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["name"])
def test_exported_models_scale_raw_images_by_themselves(table, tmp_path):
    model = built(table)
    params = model.init(jax.random.key(0))
    expected = model.apply(params, (IMAGES - np.float32(SCALING.mean)) / np.float32(SCALING.deviation), None)
    steps, whole = plan(table, params, SHAPE, CLASSES, SCALING), uncompressed(params)
    close = {"rtol": 0, "atol": 2e-5 * float(np.abs(expected).max())}
    np.testing.assert_allclose(in_onnx(onnx_bytes(whole, steps, {}), IMAGES), expected, **close)
    write_bundle(tmp_path / "mine", whole, {}, steps)
    np.testing.assert_allclose(predict(read_bundle(tmp_path / "mine"), IMAGES), expected, **close)
    program = compiled(tmp_path)
    if program is not None:
        done = subprocess.run([program, tmp_path / "mine"], input=IMAGES.tobytes(), capture_output=True, check=True)
        np.testing.assert_allclose(np.frombuffer(done.stdout, np.float32).reshape(-1, CLASSES), expected, **close)
    unscaled = in_onnx(onnx_bytes(whole, plan(table, params, SHAPE, CLASSES), {}), IMAGES)
    assert np.abs(unscaled - expected).max() > 0.01 * np.abs(expected).max()


def test_the_numbers_are_those_of_training_parts_of_who_takes_part():
    options = {"clients": 6, "unseen": 0.4, "samples": 300, "seed": 3}
    plain, scaled = (image_problem("digits")(normalize=how, **options) for how in (None, "train"))
    train = plain.clients.train
    rows = np.concatenate(
        [np.asarray(train.rows["image"][train.starts[k] :][: train.sizes[k]]) for k in plain.clients.participating]
    ).astype(np.float64)
    (mean,), (deviation,) = scaled.scaling["image"]
    assert (mean, deviation) == pytest.approx((rows.mean(), rows.std()), rel=1e-6)
    assert mean != pytest.approx(np.asarray(train.rows["image"], np.float64).mean(), rel=1e-6)
    pixels = np.asarray(scaled.clients.test.rows["image"])
    np.testing.assert_allclose(pixels, (np.asarray(train.rows["image"]) - mean) / deviation, atol=1e-5)
    assert plain.scaling == {}


def test_numbers_can_be_given_and_must_fit():
    given = image_problem("digits")(normalize=Scaling((0.25,), (0.5,)), clients=3, samples=90)
    assert given.scaling["image"] == Scaling((0.25,), (0.5,))
    assert np.asarray(given.clients.train.rows["image"]).min() == -0.5
    with pytest.raises(idiolect.UserMistake, match=r"normalize\.mean has 2 numbers, but the images have 1 channel"):
        image_problem("digits")(normalize=Scaling((0.1, 0.2), (1.0, 1.0)), clients=3, samples=90)
    for wrong in ("all", {"mean": [0.1], "deviation": [0.0]}, {"mean": [0.1]}):
        with pytest.raises(idiolect.UserMistake, match="normalize"):
            idiolect.load_recipe("demo", [f"problem.normalize={json.dumps(wrong).replace(':', '=')}"])


def test_a_run_exports_models_for_raw_images(tmp_path):
    digits = idiolect.Choice("digits", {"clients": 3, "samples": 90, "model": {"name": "linear"}, "normalize": "train"})
    run = idiolect.run(idiolect.Experiment(digits, ["fedavg"], rounds=1), out=tmp_path / "run")
    again = idiolect.open_run(run.path)
    idiolect.export_models(again, tmp_path / "mine", client=0)
    models = again.models("fedavg", 0)
    problem, model = models.problem, linear((8, 8, 1), 10)
    ((mean,), (deviation,)) = problem.scaling["image"]
    scaled = np.asarray(problem.clients.test.rows["image"])[:5]
    expected = model.apply(models.compressed(0).params, scaled, None)
    raw = scaled * np.float32(deviation) + np.float32(mean)
    assert raw.min() >= -1e-6
    bundle = read_bundle(tmp_path / "mine.safetensors")
    told = {"mean": [mean], "deviation": [deviation], "where": "inside the model"}
    assert bundle.about["image_scaling"] == told
    np.testing.assert_allclose(predict(bundle, raw), expected, rtol=1e-3, atol=1e-4)
    content = (tmp_path / "mine.onnx").read_bytes()
    texts = {entry.key: entry.value for entry in onnx.load_from_string(content).metadata_props}
    assert json.loads(texts["image_scaling"]) == told
    np.testing.assert_allclose(in_onnx(content, raw), expected, rtol=1e-3, atol=1e-4)


def test_tables_say_how_their_features_were_scaled():
    rng = np.random.default_rng(0)
    data = {"user": np.arange(60) % 4, "age": rng.normal(40, 9, 60), "bought": rng.integers(0, 2, 60)}
    made = table(data, by="user", target="bought")
    (mean,), (deviation,) = made.scaling["features"]
    features = np.asarray(made.clients.train.rows["features"])[:, 0] * deviation + mean
    np.testing.assert_allclose(np.sort(features), np.sort(data["age"]), rtol=1e-4)
    assert table(data, by="user", target="bought", standardize="each").scaling == {}
