"""A run that begins with trained models: exactly those, and the same bytes after an interruption."""

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

import idiolect
from idiolect import Choice, Experiment, NamedAlgorithm, Start, UserMistake
from idiolect.cli import main
from idiolect.errors import Interrupted
from idiolect.problems.synthetic import quadratics

PROBLEM = Choice("quadratics", {"clients": 3, "dimension": 2, "samples": 30})
LINE = NamedAlgorithm(name="fedavg", training={"step_size": 0.05})


def experiment(**changes) -> Experiment:
    settings = {"algorithms": [LINE, "rasgp"], "seeds": [1, 2], "horizon": 20.0, **changes}
    return Experiment(PROBLEM, evaluation={"points": 2, "steps": [0]}, **settings)


def contents(path, part="cells"):
    """Every file of a run but for the time it took, and for the experiment that parameters say they belong to."""
    names = ("params", "timelines") if part == "all" else (part,)
    files = [file for name in names for file in sorted((path / name).iterdir())]
    return {file.name: tensors(file) if file.suffix == ".safetensors" else file.read_bytes() for file in files}


def tensors(file):
    return {name: (str(leaf.dtype), leaf.tobytes()) for name, leaf in load_file(file).items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return idiolect.run(experiment(algorithms=[LINE], horizon=60.0), out=tmp_path_factory.mktemp("runs") / "trained")


@pytest.fixture(scope="module")
def warm(trained, tmp_path_factory):
    start = {"run": str(trained.path)}
    return idiolect.run(experiment(start=start), out=tmp_path_factory.mktemp("runs") / "warm")


@pytest.mark.parametrize("label", ["fedavg", "rasgp"])
def test_the_first_score_is_that_of_the_trained_model_with_a_server_and_without(label, trained, warm):
    for seed in (1, 2):
        end, first = trained.cell("fedavg", seed).points[-1], warm.cell(label, seed).points[0]
        assert first.scores["participating"]["0"].mean == end.scores["participating"]["0"].mean
        assert warm.cell(label, seed).points[-1].scores["participating"]["0"].mean != first.scores["participating"]["0"]


def test_training_first_gives_the_bytes_of_a_run_in_a_folder(trained, warm, tmp_path):
    start = Start(pretrain=LINE, horizon=60.0)
    both = idiolect.run(experiment(start=start), out=tmp_path / "both")
    assert contents(tmp_path / "both" / "start", "params") == contents(trained.path, "params")
    assert contents(both.path, "all") == contents(warm.path, "all")
    assert "fedavg has at virtual time 60" in both.summary.began


def test_a_run_that_was_interrupted_goes_on_to_the_same_bytes(warm, tmp_path):
    asked = iter([False] * 12)
    start = Start(pretrain=LINE, horizon=60.0)
    with pytest.raises(Interrupted):
        idiolect.run(experiment(start=start), out=tmp_path / "stopped", stop=lambda: next(asked, True))
    idiolect.run(experiment(start=start), out=tmp_path / "stopped")
    assert contents(tmp_path / "stopped", "all") == contents(warm.path, "all")


def test_learn_begins_with_exactly_the_model_that_it_is_given():
    problem = quadratics(clients=2, dimension=2)
    start = jax.tree.map(lambda leaf: leaf + 3.0, problem.init(jax.random.key(0)))
    still = idiolect.learn(problem, "fedavg", start=start, step_size=1e-30, horizon=20.0, points=1)
    jax.tree.map(np.testing.assert_array_equal, still.params, start)
    own = idiolect.learn(
        problem, "local_quantized", start=start, objective={"bits": 32, "step_size": 0.0}, horizon=20.0, points=1
    )
    jax.tree.map(np.testing.assert_array_equal, own.model(1), start)
    with pytest.raises(UserMistake, match=r"start has shape \(3,\) .* but the model of quadratics has shape \(2,\)"):
        idiolect.learn(problem, "fedavg", start=np.zeros(3, np.float32))


def test_which_models_it_began_with_is_part_of_what_an_experiment_is(trained, warm, tmp_path):
    digests = warm.experiment.start.digests
    assert set(digests) == {"1", "2"}
    with pytest.raises(UserMistake, match="holds a run of another experiment: start"):
        idiolect.run(experiment(), out=warm.path)
    other = {"run": str(trained.path), "digests": {**digests, "2": "0" * 16}}
    with pytest.raises(UserMistake, match=r"another model for seed 2 than start.digests says"):
        idiolect.run(experiment(start=other), out=tmp_path / "new")


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("nowhere", "nowhere is no run folder"),
        ({"run": "TRAINED", "label": "sgp"}, "start.label is 'sgp', but start.run .* has fedavg"),
        ({"pretrain": {"name": "local"}}, "start.pretrain is local, whose clients share no model"),
        ({"pretrain": {"name": "fedavgg"}}, "algorithm is 'fedavgg' .did you mean 'fedavg'"),
        ({}, "either run, a folder, or pretrain"),
        ({"run": "x", "horizon": 3.0}, "a run in a folder has come to its end"),
        ({"pretrain": {"name": "fedavg"}, "label": "a"}, "which are for a run in a folder"),
    ],
)
def test_what_nothing_can_begin_with_is_refused_in_a_sentence(start, says, trained, tmp_path):
    if isinstance(start, dict) and start.get("run") == "TRAINED":
        start = {**start, "run": str(trained.path)}
    with pytest.raises(UserMistake, match=says):
        idiolect.run(experiment(start=start), out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("seeds", "clients", "says"), [([3], 3, "no finished fedavg on seed 3"), ([1], 2, "")])
def test_a_folder_without_the_seed_is_refused(seeds, clients, says, trained, tmp_path):
    mine = experiment(start=str(trained.path), seeds=seeds)
    if says:
        with pytest.raises(UserMistake, match=says):
            idiolect.run(mine, out=tmp_path / "new")
    else:
        larger = mine.replace(problem=Choice("quadratics", {"clients": 3, "dimension": 4, "samples": 30}))
        with pytest.raises(UserMistake, match=r"has shape \(2,\) .* has shape \(4,\); begin with a model of the same"):
            idiolect.run(larger, out=tmp_path / "new")


def test_a_recipe_says_it_in_a_word(tmp_path, capsys):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'seeds = [1]\nhorizon = 20.0\nstart = "pretrain"\nproblem = { name = "quadratics", clients = 3 }\n'
        'algorithms = [{ name = "fedavg" }]\nevaluation = { points = 1 }\n'
    )
    assert main(["run", str(recipe), "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "start" / "summary.json").is_file()
    summary = (tmp_path / "run" / "summary.json").read_text()
    assert "every algorithm begins with the model that fedavg has at virtual time 20" in summary


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('name = "../../elsewhere"', "algorithms.0.name is '../../elsewhere'"),
        ('label = "../x"\nname = "fedavg"', "algorithms.0.label is '../x'"),
        ('nothing = "here"', "algorithms.0.name is missing"),
    ],
)
def test_no_name_in_another_run_leads_out_of_its_folder(written, said, trained, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    text = (trained.path / "recipe.toml").read_text()
    head, _, rest = text.partition("[[algorithms]]\n")
    _, _, options = rest.partition("[algorithms")
    (foreign / "recipe.toml").write_text(f"{head}[[algorithms]]\n{written}\n\n[algorithms{options}")
    with pytest.raises(UserMistake) as refused:
        idiolect.run(experiment(start={"run": str(foreign)}), out=tmp_path / "out")
    assert said in str(refused.value)
    assert not (tmp_path / "out").exists()
