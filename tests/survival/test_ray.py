"""Client work on Ray. Here Ray is pretended, but for one test: `on_ray.py` is the real thing (see `make slow`)."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from idiolect.engines import Program, Workers, prepare
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint
from idiolect.engines.ray import ActorPool, RayBackend, actor, actor_pool
from idiolect.engines.ray.actor import TurnActor, only
from idiolect.errors import Interrupted, UserMistake
from idiolect.experiments.building import build_problem
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.running import Execution, Progress, Services, run_cells
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment
from idiolect.network.timelines import write_timeline
from tests.survival.pretended_ray import NodeDiedError, PretendedRay

QUADRATICS = {"name": "quadratics", "clients": 5, "dimension": 3, "noise": 0.1}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedbuff": {"protocol": {"size": 3}},
    "persa_fl_me": {"objective": {"iterations": 2}},
    "scaffold": {},
    "qupel_async": {"objective": {"bits": 1, "keep": []}},
}


@cache
def experiment_of(name: str, **changes: Any) -> Experiment:
    tables = {
        "seeds": [0, 1],
        "horizon": 60.0,
        "problem": QUADRATICS,
        "training": {"local_steps": 2, "batch_size": 4},
        "evaluation": {"points": 2},
        "algorithms": [{"name": name, **ALGORITHMS.get(name, {})}],
    }
    return parse_recipe({**tables, **changes})


def outcomes(
    experiment: Experiment,
    execution: Execution = Execution(),
    progress: Callable[[Progress], None] = lambda state: None,
) -> list[Result]:
    with Workers(1) as workers:
        return list(run_cells(experiment, Services(workers, progress, execution=execution)))


@cache
def plainly(name: str) -> list[Result]:
    return outcomes(experiment_of(name))


def pool_of(ray: Any, experiment: Experiment, **settings: Any) -> ActorPool:
    """Actors that make the experiment from its source."""
    return ActorPool(ray, partial(cell_maker, source_of(experiment)), **settings)


def with_ray(experiment: Experiment, ray: PretendedRay, count: int | None = None) -> tuple[list[Result], ActorPool]:
    with pool_of(ray, experiment, count=count) as members:
        return outcomes(experiment, Execution(partial(RayBackend, members))), members


def same(left: list[Result], right: list[Result]) -> bool:
    """To rounding: actors compile for another number of rows."""
    assert [one.points[-1].updates for one in left] == [one.points[-1].updates for one in right]
    for a, b in zip(left, right, strict=True):
        assert a.personal.keys() == b.personal.keys()
        ends = [(one.params, dict(one.personal), [p.reports for p in one.points]) for one in (a, b)]
        for one, other in zip(*map(jax.tree.leaves, ends), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return True


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretended actors share what is compiled: only the problem's functions matter to it."""
    monkeypatch.setattr(
        actor, "prepare", lambda problem, algorithm: _programs.setdefault(algorithm.name, prepare(problem, algorithm))
    )


_programs: dict[str, Program] = {}


@pytest.mark.parametrize(("name", "count"), [("fedavg", 1), ("qupel_async", 9)])
def test_the_same_results_on_any_number_of_actors(name, count):
    ray = PretendedRay()
    found, members = with_ray(experiment_of(name), ray, count)
    assert same(found, plainly(name))
    assert (members.count, members.replaced) == (count or 3, 0)
    assert ray.puts <= sum(one.points[-1].updates for one in found)
    assert not any(actor.alive for actor in ray.actors), "nobody is left at work"


def test_what_many_receive_is_sent_once():
    ray = PretendedRay()
    (one, two), _ = with_ray(experiment_of("fedavg"), ray)
    rounds = sum(len(np.unique(outcome.table.round)) for outcome in (one, two))
    assert ray.puts == rounds < len(ray.calls) / 2


@pytest.mark.parametrize("name", ["fedbuff", "qupel_async"])
def test_who_dies_is_replaced_and_what_was_lost_is_redone_and_counts_once(name):
    ray = PretendedRay(dies=lambda call: call % 7 == 3)
    found, members = with_ray(experiment_of(name), ray)
    assert members.replaced > 5
    done = Counter(ray.calls)
    assert max(done.values()) > 1, "something was done again"
    assert same(found, plainly(name))


def test_work_that_kills_everybody_ends_the_run_with_a_sentence():
    with pytest.raises(
        UserMistake, match=r"9 actors died over turn \d of client \d; the last one said: RayActorError: The actor died"
    ):
        with_ray(experiment_of("fedbuff"), PretendedRay(dies=lambda call: True))
    assert actor_pool.DEATHS == 8


def test_who_falls_silent_is_replaced_like_the_dead(monkeypatch):
    now = [0.0]

    def later() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(actor_pool.time, "monotonic", later)
    ray = PretendedRay(freezes=lambda call: call % 11 == 4)
    experiment = experiment_of("fedbuff")
    with pool_of(ray, experiment, patience=30.0) as members:
        found = outcomes(experiment, Execution(partial(RayBackend, members)))
        assert members.replaced > 2
    assert same(found, plainly("fedbuff"))


def test_who_is_slow_and_not_dead_gets_more_time_from_one_replacement_to_the_next(monkeypatch):
    now = [0.0]

    def later() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(actor_pool.time, "monotonic", later)
    ray, experiment = PretendedRay(slow=100), experiment_of("fedbuff")
    with pool_of(ray, experiment, patience=30.0) as members:
        found = outcomes(experiment, Execution(partial(RayBackend, members)))
    assert 0 < members.replaced < ray.cluster_resources()["CPU"] * 3
    assert same(found, plainly("fedbuff"))


def test_while_an_actor_is_silent_the_run_hears_who_asks_it_to_stop():
    def stop(save: Callable[[], Checkpoint]) -> None:
        saved.append(save())
        if len(saved) > 30:
            raise Interrupted

    saved: list[Checkpoint] = []
    experiment, stopping = experiment_of("fedbuff"), NO_CHECKPOINTS._replace(tick=stop)
    ray = PretendedRay(freezes=lambda call: call > 3)  # everybody, in the end
    with pool_of(ray, experiment) as members, Workers(1) as workers:
        services = Services(workers, execution=Execution(partial(RayBackend, members)))
        services = services._replace(checkpointers=lambda label, cells: stopping)
        with pytest.raises(Interrupted):
            list(run_cells(experiment, services))
    going_on = NO_CHECKPOINTS._replace(load=lambda: saved[-1] if saved else None, clear=saved.clear)
    with Workers(1) as workers:
        again = list(run_cells(experiment, Services(workers, checkpointers=lambda label, cells: going_on)))
    assert same(again, plainly("fedbuff"))


def test_what_ray_says_of_a_dead_node_is_one_sentence_with_what_may_help():
    ray = PretendedRay(dies=lambda call: True, death=NodeDiedError)
    with pytest.raises(UserMistake, match=r"NodeDiedError: .* \(its machine is gone: look after the cluster"):
        with_ray(experiment_of("fedbuff"), ray)


def test_a_mistake_that_an_actor_finds_is_told_as_a_mistake(monkeypatch):
    def missing(*_: object) -> None:
        raise UserMistake("the data is not there")

    monkeypatch.setattr("idiolect.experiments.sources.build_problem", missing)
    with pytest.raises(UserMistake, match=r"^the data is not there$"):
        with_ray(experiment_of("fedbuff"), PretendedRay())


def test_a_real_clock_on_ray_is_replayed_by_the_simulator(tmp_path):
    experiment = experiment_of("fedbuff").replace(seeds=[0], horizon=0.5)
    ray = PretendedRay(dies=lambda call: call % 20 == 19)
    with pool_of(ray, experiment) as members:
        (found,) = outcomes(experiment, Execution(partial(RayBackend, members), "real"))
    assert found.points[-1].updates == found.table.delivered.sum()
    (tmp_path / "timeline.csv").write_text(write_timeline(found.table))
    replay = experiment.replace(timeline=str(tmp_path / "timeline.csv"))
    assert same([found], outcomes(replay))


def test_an_actor_keeps_the_rows_of_its_own_clients_and_no_others():
    split = build_problem(experiment_of("fedavg"), 0).clients.train
    mine = only(split, [1, 3])
    assert mine.sizes.tolist() == [0, split.sizes[1], 0, split.sizes[3], 0]
    for client in (1, 3):
        for before, after in zip(jax.tree.leaves(split.rows), jax.tree.leaves(mine.rows), strict=True):
            assert len(after) == mine.sizes.sum()
            here, there = (part.starts[client] + np.arange(part.sizes[client]) for part in (split, mine))
            assert np.asarray(before)[here].tobytes() == np.asarray(after)[there].tobytes()


def test_ray_need_not_be_there_to_import_what_actors_do():
    assert TurnActor.__module__ == "idiolect.engines.ray.actor"
    code = "import sys, idiolect.engines.ray; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


INSIDE = 'ip link set lo up; exec "$@"'  # a network with nothing but loopback: Ray listens on all that there is


@pytest.mark.slow
def test_the_real_thing():
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed; pip install -e '.[test,ray]'")
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-m",
        "",
        "-p",
        "no:xdist",
        str(Path(__file__).with_name("on_ray.py")),
    ]
    apart = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if shutil.which("unshare") and not subprocess.run([*apart, "ip link set lo up"], check=False).returncode:
        run = [*apart, INSIDE, "sh", *run]
    elif "IDIOLECT_RAY_ANYWHERE" not in os.environ:
        pytest.skip("no network of its own can be made for Ray here; IDIOLECT_RAY_ANYWHERE=1 runs it all the same")
    done = subprocess.run(run, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
