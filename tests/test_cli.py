"""The command line: what it names, what it runs, and that a mistake costs one sentence and leaves nothing behind."""

import json
from pathlib import Path

import pooch
import pytest

from idiolect import catalog
from idiolect.cli import main
from idiolect.commands.arguments import numbers
from idiolect.experiments.recipe_files import builtin_recipes
from idiolect.network import read_timeline
from idiolect.registry import REGISTRIES
from tests.tiny_run import SETUP

ONE = """
seeds = [0]
horizon = 20

[problem]
name = "quadratics"
clients = 4
dimension = 3
samples = 8
"""
ONE += SETUP + '[[algorithms]]\nname = "fedasync"\n'
DIGITS = 'problem={name="digits",clients=4,model={name="linear"},partition={name="by_classes",classes=5}}'
FEDAVG = 'algorithms=[{name="fedavg"}]'


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "one.toml").write_text(ONE)
    return str(tmp_path / "one.toml")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """A working folder of the test's own, so that what is left behind can be seen, and a wide terminal."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "200")
    return folder


def assert_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], *needles: str) -> None:
    """Exit code 2, one line on standard error that names what is wrong, nothing on standard output, no traceback."""
    assert main(arguments) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("idiolect: ")
    assert error.count("\n") == 1
    assert error.endswith("\n")
    assert "Traceback" not in error
    for needle in needles:
        assert needle in error


def test_list_names_everything_there_is(capsys):
    assert main(["list"]) == 0
    words = capsys.readouterr().out.split()
    for registry in (catalog.ALGORITHMS, builtin_recipes(), *REGISTRIES.values()):
        for name in registry:
            assert name in words


def test_a_run_tells_its_results_and_where_they_lie(recipe, elsewhere, capsys):
    assert main(["run", recipe, "--seed", "7", "--out", "out"]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    assert "fedasync" in output
    assert str(Path("out") / "summary.json") in output
    summary = json.loads((elsewhere / "out" / "summary.json").read_text())
    assert summary["algorithms"]["fedasync"]["seeds"] == [7]


def test_the_demo_runs_on_digits_into_the_next_free_folder(elsewhere):
    """The built-in recipe, made tiny: one algorithm, few clients, little time."""
    (elsewhere / "runs" / "demo").mkdir(parents=True)
    settings = ["problem.clients=4", 'problem.model={name="linear"}', "training.local_steps=1", "evaluation.points=1"]
    settings += ["evaluation.steps=[0,1]", "horizon=15", 'algorithms=[{name="fedasync"}]']
    assert main(["run", "--seeds", "3, 4", "--set", *settings]) == 0
    summary = json.loads((elsewhere / "runs" / "demo-2" / "summary.json").read_text())
    assert (summary["recipe"], summary["metric"], summary["higher_is_better"]) == ("demo", "accuracy", True)
    entry = summary["algorithms"]["fedasync"]
    assert entry["seeds"] == [3, 4]
    assert entry["updates"]["mean"] > 0
    assert 0 <= entry["participating"]["personalized"]["mean"] <= 1
    assert list((elsewhere / "runs" / "demo").iterdir()) == []


# Mistakes that the recipe alone shows, and mistakes that only the data, the network or the timeline show.
IN_THE_RECIPE = [
    (['algorithms=[{name="fedsync"}]'], ["algorithm is 'fedsync'", "did you mean 'fedasync'?"]),
    (['algorithms=[{name="maml+nothing"}]'], ["protocol is 'nothing'"]),
    (["horizn=3"], ["horizn is not a known key", "did you mean 'horizon'?"]),
    (["horizon=-3"], ["horizon is -3"]),
    (["horizon=nan"], ["horizon is nan"]),
    (["training.local_steps=0"], ["training.local_steps is 0"]),
    (["seeds=[0,0]"], ["seeds [0, 0] repeat themselves"]),
    (["seeds.0.x=1"], ["seeds.0.x"]),
    (["algorithms.fedasync.label=../up"], ["label is '../up'"]),
    (["problem.name=nowhere"], ["problem.name is 'nowhere'"]),
    ([DIGITS, "problem.model={name='cnn',channels=[]}"], ["channels"]),
    ([DIGITS, "problem.model={name='mlp',hidden=[-3]}"], ["hidden"]),
    ([DIGITS, "problem.partition.name=3"], ["problem.partition", "by_classes"]),
]
BEHIND_THE_RECIPE = [
    ([DIGITS, "problem.partition.classes=11"], ["partition.classes is 11", "10 classes"]),
    ([DIGITS, "problem.samples=5000"], ["problem.samples is 5000", "1797"]),
    ([DIGITS, "problem.clients=700"], ["client", "samples"]),
    ([DIGITS, "problem.shares={train=0.9,adapt=0.2}"], ["shares", "below 1"]),
    ([DIGITS, "problem.unseen=0.95"], ["unseen is 0.95"]),
    ([DIGITS, "problem.unseen=0.95", FEDAVG], ["unseen is 0.95"]),
    ([DIGITS, "problem.model={name='cnn'}"], ["model.kernel is 5", "(8, 8)"]),
    ([DIGITS, "problem.shares.validation=0", "evaluation.split=validation"], ["validation"]),
    (["problem.smoothness=0.1"], ["problem.smoothness is 0.1"]),
    (['algorithms=[{name="persa_fl_me",objective={lambda=1.5}}]'], ["objective.lambda is 1.5", "L = 2"]),
    (["network.upload_ratio=[6,4]"], ["network.upload_ratio is [6.0, 4.0]"]),
    (["horizon=0.5"], ["horizon is 0.5: too short for a single turn"]),
    (["timeline=missing.csv"], ["timeline missing.csv cannot be read"]),
    (["problem={name='mnist'}"], ["mnist", "--data-dir"]),
]


@pytest.fixture
def no_network(monkeypatch, tmp_path) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(pooch, "retrieve", fail)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache")
    monkeypatch.delenv("IDIOLECT_DATA", raising=False)


def names(case: object) -> str | None:
    return " ".join(case)[:60] if isinstance(case, list) else None


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(("settings", "needles"), [*IN_THE_RECIPE, *BEHIND_THE_RECIPE], ids=names)
def test_bad_input_ends_in_one_sentence(recipe, capsys, settings, needles):
    assert_refused(capsys, ["run", recipe, "--out", "out", "--set", *settings], *needles)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize(
    "settings",
    [IN_THE_RECIPE[0][0], *(case[0] for case in BEHIND_THE_RECIPE[:3]), *(case[0] for case in BEHIND_THE_RECIPE[9:])],
    ids=names,
)
def test_a_refused_run_leaves_nothing_behind(recipe, elsewhere, settings):
    """Or the same command, put right, would find its folder taken by another recipe."""
    assert main(["run", recipe, "--out", "out", "--set", *settings]) == 2
    assert list(elsewhere.iterdir()) == []


def test_a_mistake_can_be_put_right_in_the_same_folder(recipe, elsewhere):
    assert main(["run", recipe, "--out", "out", "--set", "horizon=0.5"]) == 2
    assert main(["run", recipe, "--out", "out", "--set", "horizon=10", "evaluation.points=1"]) == 0
    assert (elsewhere / "out" / "summary.json").is_file()


@pytest.mark.parametrize("seeds", ["--seed x", "--seed -1", "--seeds 1,,2", "--seeds 1.5", "--seeds 1,01"])
def test_seeds_that_are_no_numbers_are_refused(recipe, elsewhere, capsys, seeds):
    option, value = seeds.split()
    assert_refused(capsys, ["run", recipe, option, value], f"{option} is '{value}'")
    assert list(elsewhere.iterdir()) == []


def test_byte_budgets_are_one_a_client_and_may_be_alike():
    assert numbers("--bytes", "100, 100,200") == [100, 100, 200]


def test_a_recipe_that_is_not_toml_or_not_there_is_refused(tmp_path, elsewhere, capsys):
    (tmp_path / "bad.toml").write_text("horizon = = 3")
    assert_refused(capsys, ["run", str(tmp_path / "bad.toml")], "bad.toml is not TOML")
    assert_refused(capsys, ["run", str(tmp_path / "none.toml")], "none.toml does not exist")
    assert_refused(capsys, ["run", "dmeo"], "recipe is 'dmeo' (did you mean 'demo'?)")
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(recipe, elsewhere, capsys):
    (elsewhere / "file").write_text("mine")
    assert_refused(capsys, ["run", recipe, "--out", "file/below"], "--out file/below cannot be written")
    assert_refused(capsys, ["run", recipe, "--out", "file"], "--out file is no folder to run in")
    assert [path.name for path in elsewhere.iterdir()] == ["file"]
    assert (elsewhere / "file").read_text() == "mine"


def test_a_run_that_diverges_says_where_and_has_an_exit_code_of_its_own(recipe, elsewhere, capsys):
    arguments = ["run", recipe, "--out", "out", "--set", "training.step_size=1e30", "training.local_steps=5"]
    assert main(arguments) == 3
    output, error = capsys.readouterr()
    assert "fedasync (ended early)" in output
    assert "fedasync, seed 0, ended before its time: fedasync diverged: client" in output
    assert "local step" in output
    assert error == "idiolect: 1 of 1 cells diverged: fedasync with seed 0\n"
    assert (
        "last scored"
        in json.loads((elsewhere / "out" / "summary.json").read_text())["algorithms"]["fedasync"]["ended"]["0"]
    )


def test_a_faulty_client_is_named_in_the_summary_and_in_the_terminal(recipe, elsewhere, capsys):
    attack = "attack={clients=[2],kind='nan'}"
    assert main(["run", recipe, "--out", "out", "--set", attack]) == 0
    table = read_timeline(elsewhere / "out" / "timelines" / "fedasync-seed0.csv")
    came = int((table.delivered & (table.client == 2)).sum())
    assert f"fedasync, seed 0: client 2: {came} updates refused (not finite)." in capsys.readouterr().out
    summary = json.loads((elsewhere / "out" / "summary.json").read_text())
    assert summary["algorithms"]["fedasync"]["refusals"] == {"0": {"2": {"not finite": came}}}
    stopping = ["run", recipe, "--out", "other", "--set", attack, "screening.policy=stop"]
    assert_refused(capsys, stopping, "fedasync stopped", "client 2", "turn", "virtual time")


def test_an_attack_that_makes_a_run_diverge_is_a_result(recipe, elsewhere, capsys):
    assert main(["run", recipe, "--out", "out", "--set", "attack={clients=1.0,kind='nan'}"]) == 0
    assert "fedasync, seed 0, ended before its time: fedasync diverged" in capsys.readouterr().out
    entry = json.loads((elsewhere / "out" / "summary.json").read_text())["algorithms"]["fedasync"]
    assert "last scored at time" in entry["ended"]["0"]


def test_an_adaptation_that_diverges_is_refused_or_written_as_json_that_others_can_read(recipe, elsewhere, capsys):
    """NaN and Infinity are no JSON."""

    def no_number(text: str) -> None:
        pytest.fail(f"{text} is not JSON")

    code = main(["run", recipe, "--out", "out", "--set", "evaluation.step_size=1e30", "evaluation.steps=[0,5]"])
    assert code in (0, 2)
    for path in [*elsewhere.rglob("*.json"), *elsewhere.rglob("*.jsonl")]:
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            json.loads(line, parse_constant=no_number)


def write(folder: Path, text: str) -> str:
    (folder / "hand.csv").write_text(text)
    return str(folder / "hand.csv")


def test_an_asynchronous_algorithm_runs_on_a_timeline_written_by_hand(recipe, tmp_path, elsewhere):
    """Two updates arrive by the time of the second evaluation, one of them just then; one is lost on the way."""
    path = write(tmp_path, "client,offered,arrived,delivered\n0,0,3,true\n1,1,10,true\n0,4,8,false\n3,2,15,true\n")
    assert main(["run", recipe, "--out", "out", "--timeline", path]) == 0
    metrics = [json.loads(line) for line in (elsewhere / "out" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["time"], line["updates"]) for line in metrics] == [(0, 0), (10, 2), (20, 3)]
    table = read_timeline(elsewhere / "out" / "timelines" / "fedasync-seed0.csv")
    for before, after in zip(read_timeline(Path(path)), table, strict=True):
        assert before.tobytes() == after.tobytes()


def test_a_synchronous_algorithm_runs_on_a_timeline_with_rounds(recipe, tmp_path, elsewhere):
    path = write(tmp_path, "client,offered,arrived,round\n0,0,3,0\n1,0,5,0\n2,5,8,1\n3,5,9,1\n")
    assert main(["run", recipe, "--out", "out", "--timeline", path, "--set", FEDAVG]) == 0
    summary = json.loads((elsewhere / "out" / "summary.json").read_text())
    assert summary["algorithms"]["fedavg"]["updates"]["mean"] == 4


@pytest.mark.parametrize(
    ("text", "settings", "needles"),
    [
        ("client,offered,arrived\n0,0,3\n", [FEDAVG], ["fedavg works in rounds", "without a round number"]),
        ("client,offered,arrived,round\n0,0,3,0\n", ["horizon=20"], ["fedasync knows no rounds"]),
        ("client,offered,arrived\n9,0,3\n", ["horizon=20"], ["names client 9"]),
        ("client,offered,arrived\n0,0,soon\n", ["horizon=20"], ["hand.csv", "'soon'"]),
        ("client,offered,arrived\n0,0,3\n0,1,4\n", ["horizon=20"], ["client 0", "one turn at a time"]),
        ("client,offered\n0,0\n", ["horizon=20"], ["hand.csv", "arrived"]),
        ("client,offered,arrived,delivered\n0,0,3\n", ["horizon=20"], ["hand.csv", "delivered"]),
    ],
)
def test_a_timeline_that_does_not_fit_is_refused(recipe, tmp_path, elsewhere, capsys, text, settings, needles):
    path = write(tmp_path, text)
    assert_refused(capsys, ["run", recipe, "--out", "out", "--timeline", path, "--set", *settings], *needles)


def test_a_timeline_in_a_folder_with_an_awkward_name_is_found(recipe, tmp_path, elsewhere):
    folder = tmp_path / """it's a "back\\slash" folder"""
    folder.mkdir()
    path = write(folder, "client,offered,arrived\n0,0,3\n")
    assert main(["run", recipe, "--out", "out", "--timeline", path]) == 0


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ("clients=1,goals=[[0,5]]", "problem.goals has [0, 5]"),
        ("clients=1,goals=[[0,4]],horizon=7", "take a horizon of at least 8"),
        ("horizon=-3", "problem.horizon is -3"),
        ("clients=5,size=2", "a grid of size 2 has 4 cells"),
    ],
)
def test_a_task_that_cannot_be_is_refused_before_anything_is_written(recipe, elsewhere, capsys, options, needle):
    problem = f'problem={{name="navigation",{options}}}'
    assert_refused(capsys, ["run", recipe, "--out", "out", "--set", problem], needle)
    assert not (elsewhere / "out").exists()
