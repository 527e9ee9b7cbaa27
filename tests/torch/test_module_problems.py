"""PyTorch modules as problems: what learns, what stays, what is drawn, what comes back, and what goes wrong."""

from collections import OrderedDict
from importlib.util import find_spec

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

import jax  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch import nn  # noqa: E402

import idiolect  # noqa: E402
import idiolect.torch  # noqa: E402
from idiolect import objectives, protocols  # noqa: E402
from idiolect.evaluation.scoring import mean_scores  # noqa: E402
from idiolect.experiments.describing import describe  # noqa: E402
from idiolect.inspection.bridge_trial import bridge_advice  # noqa: E402
from idiolect.sharing import private_leaves  # noqa: E402
from tests.torch.twins import CLASSES, SIDE, data, loss, make_cnn, make_mlp, right, torch_problem  # noqa: E402

KEY = jax.random.key(5)
TRACES = find_spec("torchax") is not None
PAIR = ["call", pytest.param("trace", marks=pytest.mark.skipif(not TRACES, reason="torchax is not installed"))]


def make_normalized() -> nn.Module:
    torch.manual_seed(2)
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(256, CLASSES)]
    return nn.Sequential(*layers)


def oracle_of(problem, batch_size=8):
    return problem.oracle(problem.clients.train.shard(0), batch_size)


def small(problem, algorithm="fedavg", **options):
    return idiolect.learn(problem, algorithm, horizon=20.0, points=1, local_steps=2, batch_size=8, **options)


def test_the_module_is_never_changed_and_only_what_is_chosen_learns():
    module = make_cnn()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    problem = torch_problem(module, train="4.*")
    result = small(problem, step_size=0.1)
    assert set(result.params) == {"4.weight", "4.bias"}
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    whole = result.state_dict(1)
    assert torch.equal(whole["0.weight"], before["0.weight"])
    assert not torch.equal(whole["4.weight"], before["4.weight"])
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize(
    ("train", "chosen"),
    [
        (["0.*", "4.bias"], {"0.weight", "0.bias", "4.bias"}),
        (lambda name, parameter: parameter.dim() == 1, {"0.bias", "4.bias"}),
    ],
)
def test_parts_are_chosen_by_patterns_and_functions(train, chosen):
    assert set(torch_problem(make_cnn(), train=train).init(KEY)) == chosen


def test_parameters_without_a_gradient_are_frozen_by_default():
    module = make_cnn()
    module[0].requires_grad_(False)
    assert set(torch_problem(module).init(KEY)) == {"4.weight", "4.bias"}


@pytest.mark.parametrize("bridge", PAIR)
def test_statistics_of_batches_have_no_gradient_and_are_measured_as_pytorch_does(bridge):
    module = make_normalized()
    problem = torch_problem(module, bridge=bridge)
    params = problem.init(KEY)
    assert {"1.running_mean", "1.running_var"} < set(params)
    assert "1.num_batches_tracked" not in params
    _, grads = oracle_of(problem).gradient(params, KEY)
    assert not grads["1.running_mean"].any()
    assert not grads["1.running_var"].any()
    assert grads["1.weight"].any()
    shard = problem.clients.adapt.shard(0)
    ready = jax.jit(problem.calibrate)(params, shard)
    rows = np.asarray(shard.rows["image"])[int(shard.start) + np.arange(128) % int(shard.size)]
    with torch.no_grad():
        maps = module[0](torch.tensor(rows))
    np.testing.assert_allclose(ready["1.running_mean"], maps.mean((0, 2, 3)), atol=1e-5)
    np.testing.assert_allclose(ready["1.running_var"], maps.var((0, 2, 3)), atol=1e-5)
    np.testing.assert_array_equal(ready["0.weight"], params["0.weight"])


@pytest.mark.parametrize("bridge", PAIR)
def test_without_a_score_the_loss_of_each_row_is_scored_in_evaluation_mode(bridge):
    module = make_normalized().eval()
    problem = idiolect.torch.problem(make_normalized(), loss, data(), bridge=bridge)
    part = problem.clients.test.shard(1)
    place = slice(int(part.start), int(part.start + part.size))
    rows = {name: torch.tensor(np.asarray(values)[place]) for name, values in part.rows.items()}
    with torch.no_grad():
        wanted = loss(module, {"image": rows["image"], "label": rows["label"].long()})
    found = mean_scores(problem.metrics, problem.init(KEY), part)
    np.testing.assert_allclose(found, [wanted], rtol=1e-5)


def test_the_last_layer_is_the_one_that_the_module_has_last():
    torch.manual_seed(0)
    layers = {"features": nn.Linear(SIDE * SIDE, 4), "act": nn.ReLU(), "classifier": nn.Linear(4, CLASSES)}
    problem = torch_problem(nn.Sequential(nn.Flatten(), nn.Sequential(OrderedDict(layers))))
    params = problem.init(KEY)
    assert private_leaves(params, ["last"]) == {"1.classifier.weight", "1.classifier.bias"}
    assert private_leaves(params, ["first"]) == {"1.features.weight", "1.features.bias"}
    result = small(problem, "fedper", step_size=0.1)
    assert [name for name, leaf in result.params.items() if leaf is not None][:1] == ["1.features.weight"]
    one, other = result.state_dict(0), result.state_dict(1)
    assert torch.equal(one["1.features.weight"], other["1.features.weight"])
    assert not torch.equal(one["1.classifier.weight"], other["1.classifier.weight"])


def test_what_comes_back_scores_in_pytorch_what_the_run_says(tmp_path):
    problem = torch_problem(make_normalized())
    experiment = idiolect.Experiment(problem, ["persa_fl_maml"], horizon=20.0, name="torch")
    run = idiolect.run(experiment, out=tmp_path / "run")
    (shipped,) = idiolect.export_models(run, tmp_path / "two.safetensors", client=2)
    module = make_normalized().eval()
    module.load_state_dict(load_file(shipped.files[0]))
    part = problem.clients.test
    place = slice(int(part.starts[2]), int(part.starts[2] + part.sizes[2]))
    rows = {name: torch.tensor(np.asarray(values)[place]) for name, values in part.rows.items()}
    with torch.no_grad():
        assert float(right(module, rows).float().mean()) == pytest.approx(shipped.score)
    graph = idiolect.export_models(run, tmp_path / "two.onnx", client=2)[0].files[0]
    runtime = pytest.importorskip("onnxruntime").InferenceSession(graph)
    with torch.no_grad():
        wanted = module(rows["image"]).numpy()
    (found,) = runtime.run(None, {"input0": rows["image"].numpy()})
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert set(run.state_dict(2)) == set(module.state_dict())
    assert not [name for name in run.parameters() if "num_batches" in name]


@pytest.mark.parametrize("bridge", PAIR)
def test_dropout_follows_the_key(bridge):
    problem = torch_problem(make_normalized(), bridge=bridge)
    params, oracle = (
        problem.init(KEY),
        problem.oracle(problem.clients.train._replace(sizes=np.ones(4, np.int32)).shard(0), 8),
    )
    losses = [float(oracle.value(params, jax.random.key(seed))) for seed in (1, 2, 1)]
    assert losses[0] == losses[2] != losses[1]  # there is one row to draw, so only the masks can differ
    np.testing.assert_allclose(oracle.gradient(params, jax.random.key(1))[0], losses[0], rtol=1e-6)


@pytest.mark.parametrize("make", [make_normalized, make_mlp])
def test_the_same_seed_gives_the_same_bytes_on_many_threads(make):
    first, again = (small(torch_problem(make()), step_size=0.05) for _ in range(2))
    assert all(np.array_equal(first.params[name], again.params[name]) for name in first.params)
    assert first.points[-1] == again.points[-1]


def test_rows_are_scored_alike_one_by_one_and_together():
    problem = torch_problem(make_mlp())
    params, shard = problem.init(KEY), problem.clients.train.shard(1)
    rows = {name: values[int(shard.start) : int(shard.start + shard.size)] for name, values in shard.rows.items()}
    together = jax.jit(lambda: mean_scores(problem.metrics, params, shard, 8))()
    np.testing.assert_allclose(together[0], problem.metric.score(params, rows), rtol=1e-6)


def test_without_a_score_the_loss_is_scored():
    problem = idiolect.torch.problem(make_mlp(), loss, data())
    assert problem.metric.name == "loss"
    params, shard = problem.init(KEY), problem.clients.test.shard(0)
    rows = {name: values[int(shard.start) : int(shard.start + shard.size)] for name, values in shard.rows.items()}
    np.testing.assert_allclose(
        jax.jit(lambda: mean_scores(problem.metrics, params, shard, 8))()[0],
        problem.metric.score(params, rows),
        rtol=1e-5,
    )


def test_the_frozen_part_is_known_by_its_digest():
    def described(change):
        module = make_cnn()
        with torch.no_grad():
            module[0].bias += change
        return describe(idiolect.Experiment(torch_problem(module, train="4.*"), ["fedavg"]))

    assert described(0.0) == described(0.0)
    assert described(0.0) != described(0.1)


def test_a_loss_that_ignores_some_parameters_or_is_linear_has_derivatives():
    problem = idiolect.torch.problem(
        make_mlp(), lambda module, batch: (module[1].weight * 2).sum() + 0 * batch["image"].sum(), data()
    )
    params, oracle = problem.init(KEY), oracle_of(problem)
    _, grads = oracle.gradient(params, KEY)
    np.testing.assert_array_equal(grads["1.weight"], 2.0)
    assert not grads["3.weight"].any()
    assert not oracle.hessian_product(params, grads, KEY)["1.weight"].any()


MISTAKES = [
    ({"train": "lora"}, "train is 'lora'.*get_peft_model"),
    ({"train": "heads.*"}, r"train is 'heads\.\*'.*1\.weight"),
    ({"bridge": "carry"}, "bridge is 'carry', but must be 'call' or 'trace'"),
    ({"score": lambda module, batch: right(module, batch).float().mean()}, r"shape \(\) for 4 samples"),
    ({"loss": lambda module, batch: module(batch["image"])}, r"loss gives a tensor of shape \(4, 3\)"),
    ({"loss": lambda module, batch: module(batch["picture"]).sum()}, "fails on the first rows: KeyError: 'picture'"),
    ({"loss": lambda module, batch: batch["image"].sum()}, "does not depend on the module"),
    ({"module": make_mlp().half()}, "torch.float16, but what is trained must be torch.float32"),
    ({"module": lambda images: images}, "module is function, but must be a torch.nn.Module"),
    ({"data": []}, "data is empty"),
    ({"module": make_mlp().double()}, "torch.float64, but JAX works in 32 bits"),
]


@pytest.mark.parametrize(("change", "sentence"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_in_a_sentence(change, sentence):
    given = {"module": make_mlp(), "loss": loss, "data": data(), **change}
    if isinstance(given["module"], nn.Module) and next(given["module"].parameters()).dtype != torch.float32:
        given["loss"] = lambda module, batch: loss(
            module, {**batch, "image": batch["image"].to(module[1].weight.dtype)}
        )
    with pytest.raises(idiolect.UserMistake, match=sentence):
        idiolect.torch.problem(given.pop("module"), given.pop("loss"), given.pop("data"), **given)


def told_of_bridges(notes):
    (note,) = [note for note in notes if "bridge=" in note]
    return "by bridge='call'" in note and "by bridge='trace'" in note if TRACES else "idiolect[torchax]" in note


def test_both_bridges_are_tried_for_advice():
    problem = torch_problem(make_mlp())
    mine = idiolect.Algorithm("mine", objectives.plain(), protocols.asynchronous(), local_steps=2, batch_size=8)
    assert told_of_bridges(bridge_advice(problem, mine))
    assert bridge_advice(problem._replace(origin=None), mine) == []


@pytest.mark.slow
def test_inspect_gives_that_advice():
    experiment = idiolect.Experiment(torch_problem(make_mlp()), ["fedavg"], horizon=20.0, name="torch")
    assert told_of_bridges(idiolect.inspect_experiment(experiment).problem.notes)
