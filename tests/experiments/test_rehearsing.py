"""Compiling ahead: each distinct program once, for the same bytes, and what goes wrong is told as ever."""

import logging
import re
import subprocess
import sys
from collections import Counter

import jax
import numpy as np
import pytest

import idiolect
from idiolect import Algorithm, Choice, Experiment, objectives, protocols, stateless
from idiolect.engines import Workers
from idiolect.experiments import rehearsing
from idiolect.experiments.running import Services, run_cells

MINE = Experiment(
    Choice("quadratics", {"clients": 4, "dimension": 3}),
    ["fedavg", "fedasync", "fedbuff"],
    horizon=40.0,
    evaluation=idiolect.Evaluation(points=3),
)


def ran(experiment: Experiment, cores: int) -> list[tuple]:
    with Workers(cores) as workers:
        results = list(run_cells(experiment, Services(workers)))
    models = [[np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(result.params)] for result in results]
    return [(result.record.label, result.record.points, model) for result, model in zip(results, models, strict=True)]


@pytest.fixture
def compiled(caplog):
    """The names of the programs that are compiled."""
    before = jax.config.jax_log_compiles
    jax.config.update("jax_log_compiles", True)
    with caplog.at_level(logging.WARNING):
        yield lambda: Counter(re.findall(r"^Compiling jit\((\w+)\)", "\n".join(caplog.messages), re.M))
    jax.config.update("jax_log_compiles", before)


@pytest.mark.parametrize("cores", [1, 2])
def test_each_distinct_program_is_compiled_once(compiled, cores):
    """Algorithms with one objective share the program that scores them; seeds share everything."""
    ran(MINE.replace(seeds=[0, 1]), cores)
    assert {name: compiled()[name] for name in ("turn", "absorb", "close", "score")} == {
        "turn": 3,
        "absorb": 3,
        "close": 1,
        "score": 1,
    }


def test_what_was_compiled_ahead_gives_the_same_bytes():
    assert ran(MINE, 2) == ran(MINE, 1)


def test_a_rehearsal_that_fails_is_nobody_s_failure(monkeypatch):
    def fail(*given):
        raise RuntimeError("nobody hears of this")

    expected = ran(MINE, 1)
    monkeypatch.setattr(rehearsing, "_rehearse_turns", fail)
    monkeypatch.setattr(rehearsing, "_rehearse_scores", fail)
    assert ran(MINE, 2) == expected


def test_what_goes_wrong_in_an_algorithm_is_told_when_its_time_has_come():
    """By then the results of those before it are out."""

    def gradient(oracle, params, received, key):
        raise RuntimeError("no gradient today")

    broken = stateless(objectives.plain().value, gradient)
    mine = MINE.replace(algorithms=["fedasync", Algorithm("broken", broken, protocols.asynchronous())])
    with Workers(2) as workers:
        results = run_cells(mine, Services(workers))
        assert next(results).record.label == "fedasync"
        with pytest.raises(RuntimeError, match="no gradient today"):
            next(results)


def test_nothing_more_is_compiled_for_a_run_that_is_given_up(monkeypatch):
    begun, rehearse = [], rehearsing._rehearse_turns

    def noted(prepared, clients, seed):
        begun.append(prepared.program.algorithm.name)
        rehearse(prepared, clients, seed)

    monkeypatch.setattr(rehearsing, "_rehearse_turns", noted)

    def stopping(state):
        raise KeyboardInterrupt

    with Workers(2) as workers, pytest.raises(KeyboardInterrupt):
        list(run_cells(MINE, Services(workers, progress=stopping)))
    assert begun in (["fedavg"], ["fedavg", "fedasync"], [])


RECIPE = """
horizon = 20.0
algorithms = [{ name = "fedavg" }, { name = "fedasync" }]
problem = { name = "quadratics", clients = 3, dimension = 2 }
evaluation = { points = 1 }
"""
TWICE = """
import sys
import jax
import jax.monitoring
from idiolect.cli import main

missed = []
jax.monitoring.register_event_listener(lambda name, **rest: missed.append(name) if "cache_misses" in name else None)
for out in sys.argv[2:]:
    jax.clear_caches()
    missed.clear()
    assert main(["run", sys.argv[1], "--out", out]) == 0
    print("missed", len(missed), file=sys.stderr)
"""


def test_a_second_run_finds_everything_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    (tmp_path / "mine.toml").write_text(RECIPE)
    given = [sys.executable, "-c", TWICE, *(str(tmp_path / name) for name in ("mine.toml", "one", "two"))]
    told = subprocess.run(given, capture_output=True, text=True, check=True).stderr
    first, second = map(int, re.findall(r"missed (\d+)", told))
    assert first > 0
    assert second == 0
