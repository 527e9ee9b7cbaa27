"""What an exhibit takes at a scale: everything is started, and the parts are added up as said."""

import json

import pytest

from idiolect.cli import main
from idiolect.inspection.cost_estimate import Cost
from idiolect.papers import sizing
from idiolect.papers.exhibits import EXHIBITS
from idiolect.papers.sizing import GPU_RATE, STEP_FLOOR, TRIALS, Part, Sizing, size_up, trials_at
from idiolect.papers.sizing_page import long, read_sizings, section, told, write_sizings
from idiolect.papers.sizing_programs import PROGRAMS, Program, reckon
from idiolect.papers.trials import experiment_of

WITHOUT_LEARNING = {"persa-fl-fig-1", "persa-fl-fig-2a", "pars-push-fig-1-settings", "pars-push-fig-3"}
SIZED = Sizing("memrl-fig-1", "paper", [Part("a", 2, 3, 600, 3600.0, 60.0), Part("b", 1, 3, 30, 60.0, 6.0)], 1.7e11, [])


def test_every_exhibit_that_learns_has_its_runs_listed():
    assert sizing.TRIALS.keys() | PROGRAMS.keys() == EXHIBITS.keys() - WITHOUT_LEARNING
    assert not sizing.TRIALS.keys() & PROGRAMS.keys()
    for name, trials in sizing.TRIALS.items():
        assert EXHIBITS[name].scales.keys() == trials[0].sizes.keys()


@pytest.mark.slow
def test_a_small_exhibit_is_started_and_reckoned_from_its_turns(capsys):
    assert main(["reproduce", "memrl-fig-1", "--scale", "quick", "--dry"]) == 0
    text = capsys.readouterr().out
    assert "memrl-navigation: 2 algorithms, 2 seeds, 36 updates" in text, "2 methods x 2 seeds x 3 rounds x 3 tasks"
    assert "on a GPU (an estimate)" in text
    assert "GFLOP/s here" in text


def test_what_learns_nothing_takes_seconds(capsys):
    assert main(["reproduce", "persa-fl-fig-2a", "--scale", "paper", "--dry"]) == 0
    assert "nothing is learned: it takes seconds" in capsys.readouterr().out
    assert size_up(EXHIBITS["persa-fl-fig-1"], "paper").parts == []


@pytest.mark.parametrize(
    ("turn", "each"),
    [(1.0, 1e11 / GPU_RATE), (1e-4, 10 * STEP_FLOOR)],  # by the rates; by the start of kernels
)
def test_a_gpu_is_as_much_faster_as_its_rate_and_no_faster_than_its_kernels_start(turn, each):
    cost = Cost("mine", 100, 7.0, turn, 0.01, 7.0 + turn * 300 + 3.0, 0, 0)
    assert sizing._on_gpu(cost, 100 * 10, 3, 1e11) == pytest.approx(each * 300 + 3.0 * 1e11 / GPU_RATE + 7.0)


def test_programs_are_reckoned_from_a_few_steps_of_every_kind(monkeypatch):
    clock, ran = [0.0], []

    def program(kind, steps, compiles):
        def run(few):
            clock[0] += 0.25 * few + (compiles if (kind, "compiled") not in ran else 0.0)
            ran.extend([(kind, "compiled"), (kind, few)])

        return Program(kind, 3, steps, 10, 2, run)

    monkeypatch.setattr("idiolect.papers.sizing_programs.time.perf_counter", lambda: clock[0])
    found = reckon([program("a", 100, 7.0), program("a", 50, 7.0), program("b", 1000, 5.0)], seeds=4)
    assert found.compile_seconds == pytest.approx(12.0)
    assert found.seconds == pytest.approx(12.0 + 0.25 * 1150)
    assert (found.lanes, found.steps, found.local_steps) == (9, 3 * 1150 * 4, 2300)
    assert [steps for _, steps in ran if steps != "compiled"] == [10, 10, 20] * 2, "once for a kind"


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_every_exhibit_start_and_take_so_many_steps(name):
    programs = PROGRAMS[name]("quick", (0, 1))
    assert all(program.steps > 0 and program.lanes > 0 for program in programs)
    programs[0].run(programs[0].few // 10 * 2)


def test_what_could_not_be_started_is_told_and_is_a_failure(monkeypatch, capsys):
    stopped = SIZED._replace(stopped=["a: fedavg: it diverged"])
    monkeypatch.setattr(sizing, "size_up", lambda exhibit, scale, data_dir: stopped)
    assert main(["reproduce", "memrl-fig-1", "--scale", "paper", "--dry"]) == 1
    assert "did not start: a: fedavg: it diverged" in capsys.readouterr().out


def test_sizes_are_kept_and_told_on_the_page(tmp_path):
    write_sizings({"memrl-fig-1": SIZED}, "paper", tmp_path)
    file = write_sizings({"persa-fl-fig-1": Sizing("persa-fl-fig-1", "paper", [], 0.0)}, "paper", tmp_path)
    assert set(json.loads(file.read_text())) == {"memrl-fig-1", "persa-fl-fig-1"}
    found = read_sizings("paper", tmp_path)
    assert found["memrl-fig-1"] == SIZED
    page = "\n".join(section(list(EXHIBITS.values()), found))
    assert "| 630 | 61 min | 66 s |" in page
    assert "| PersA-FL, Fig. 1 |" in page
    assert "**estimates**" in page
    assert "19.5 TFLOP/s" in page
    assert "reached 170 to 170 GFLOP/s" in page
    assert "Not sized up yet: PARS-Push, Fig. 1; " in page
    assert section([], {}) == []


def test_lines_for_the_terminal():
    lines = told(EXHIBITS["memrl-fig-1"], SIZED)
    assert lines[1] == "  a: 2 algorithms, 3 seeds, 600 updates; about 60 min here, 60 s on a GPU (an estimate)"
    assert [long(seconds) for seconds in (3, 300, 7200, 180_000, 3_600_000)] == [
        "3 s",
        "5 min",
        "2 h",
        "50 h",
        "42 days",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scale", "quick", "--commit"], "--commit is given with other sizes than are committed"),
        (["--seeds", "0,1", "--commit"], "those of --scale desk"),
        (["--scale", "desk", "--dry", "--commit"], "those of --scale paper with --dry"),
    ],
)
def test_only_what_the_page_shows_is_committed(arguments, says, capsys):
    assert main(["reproduce", "memrl-fig-1", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("name", TRIALS)
def test_what_an_exhibit_runs_at_a_scale_is_there_at_that_scale(name):
    for scale in ("quick", "desk", "paper"):
        for trial in trials_at(name, scale):
            assert experiment_of(trial, scale).labels


def test_further_seeds_for_one_claim_are_sized_up_at_the_desk_only():
    assert [len(trials_at("qupel-table-2", scale)) for scale in ("quick", "desk", "paper")] == [1, 2, 1]
