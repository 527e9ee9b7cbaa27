"""Real deaths of real actors, and all that takes long on Ray. Run by `test_ray.py`, in a network of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from idiolect.engines import Workers
from idiolect.engines.checkpointing import NO_CHECKPOINTS, Checkpoint, Checkpointer
from idiolect.engines.ray import ActorPool, RayBackend, actor_pool
from idiolect.errors import UserMistake
from idiolect.experiments.cell_results import Result
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.running import Execution, Progress, Services, run_cells
from idiolect.network.timelines import write_timeline
from tests.survival.ray_runs import by_ray, by_signal, cluster, experiment_of, killing, on_ray, outcomes, plainly, same
from tests.survival.test_going_on import ends

ray = pytest.fixture(scope="module")(cluster)
NAMES = ["fedavg", "fedbuff", "persa_fl_me", "qupel_async"]


def same_bytes(left: list[Result], right: list[Result]) -> bool:
    """Not promised, since actors compile for other numbers of rows; but good to know."""
    return ends(left)[1] == ends(right)[1]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_results_as_the_simulator(ray, name):
    found, _ = on_ray(ray, experiment_of(name))
    assert same(found, plainly(name))
    print(f"{name}: as the simulator, to rounding; to the last bit: {same_bytes(found, plainly(name))}")


@pytest.mark.parametrize("name", ["fedbuff", "qupel_async"])
def test_actors_are_killed_and_nothing_is_lost_or_counted_twice(ray, name):
    found, pool = on_ray(ray, experiment_of(name), disturb=killing(ray, [by_ray, by_signal, by_ray], every=8))
    assert pool.replaced == 3
    assert same(found, plainly(name))
    print(f"{name}: three actors killed and replaced; {[one.points[-1].updates for one in found]} updates as ever")


@pytest.mark.parametrize("name", ["fedbuff", "qupel_async"])
def test_a_run_on_ray_is_saved_and_goes_on_here_or_there(ray, name):
    experiment = experiment_of(name).replace(seeds=[0])
    moments: list[Checkpoint] = []
    collecting = NO_CHECKPOINTS._replace(tick=lambda save: moments.append(save()))
    on_ray(ray, experiment, checkpointer=collecting)
    middle: Checkpointer = NO_CHECKPOINTS._replace(load=lambda: moments[len(moments) // 2])
    there, _ = on_ray(ray, experiment, checkpointer=middle)
    with Workers(1) as workers:
        here = list(run_cells(experiment, Services(workers, checkpointers=lambda label, cells: middle)))
    assert same(there, plainly(name)[:1])
    assert same(here, plainly(name)[:1])
    print(
        f"{name}: saved on Ray at moment {len(moments) // 2} of {len(moments)}, went on there and here to the same end"
    )


@pytest.mark.parametrize("name", ["persa_fl_me", "fedbuff", "qupel_async"])
def test_what_happened_in_real_time_is_replayed_by_the_simulator(ray, name, tmp_path):
    """One client sleeps through the run, and an actor of the others is killed."""
    experiment = experiment_of(name).replace(seeds=[0], horizon=8.0)
    disturb = killing(ray, [by_signal], every=40)
    (found,), pool = on_ray(ray, experiment, "real", count=3, naps={0: 1e6}, disturb=disturb)
    table = found.table
    assert pool.replaced == 1
    assert table.client[~table.delivered].tolist().count(0) == 1, "whoever sleeps holds up only those beside it"
    assert found.points[-1].updates == table.delivered.sum() > 20
    (tmp_path / "timeline.csv").write_text(write_timeline(table))
    replay = outcomes(experiment.replace(timeline=str(tmp_path / "timeline.csv")))
    assert same([found], replay)
    print(
        f"{name}: {table.delivered.sum()} updates in 8 s, one actor killed, one client asleep; replayed to rounding; "
        f"to the last bit: {same_bytes([found], replay)}"
    )


PROGRAM = "import sys; from idiolect.cli import main; sys.exit(main())"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def test_the_command_line_stops_goes_on_and_ends_where_the_simulator_does(ray, tmp_path):
    """On the cluster of these tests, by its address."""
    (tmp_path / "recipe.toml").write_text(write_experiment(experiment_of("fedbuff").replace(horizon=3000.0)))
    where = ["--engine", "ray", "--address", ray.get_runtime_context().gcs_address, "--actors", 2]
    out = tmp_path / "ray"
    process = subprocess.Popen(
        command("run", tmp_path / "recipe.toml", "--out", out, *where, "--checkpoint-every", 0.05),
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not list(out.glob("checkpoints/*.safetensors")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"go on with: idiolect resume {out} --engine ray --address" in errors
    subprocess.run(command("resume", out, *where), check=True)
    subprocess.run(command("run", tmp_path / "recipe.toml", "--out", tmp_path / "here"), check=True)
    for file in (tmp_path / "here" / "params").iterdir():
        one, other = load_file(file), load_file(out / "params" / file.name)
        assert one.keys() == other.keys()
        for name, leaf in one.items():
            np.testing.assert_allclose(leaf, other[name], rtol=1e-5, atol=1e-6)


def test_a_frozen_actor_is_replaced(ray):
    """Stopped, not killed: it is there, and says nothing."""
    frozen = []

    def freeze(pool: ActorPool, state: Progress) -> None:
        if not frozen:
            frozen.append(ray.get(pool.actor(0).process.remote()))
            os.kill(frozen[0], signal.SIGSTOP)

    found, pool = on_ray(ray, experiment_of("fedbuff"), disturb=freeze, patience=20.0)
    assert pool.replaced >= 1
    assert same(found, plainly("fedbuff"))


def test_work_that_kills_everybody_ends_the_run_with_a_sentence(ray):
    def deadly() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    experiment = experiment_of("fedbuff").replace(seeds=[0])
    with ActorPool(ray, lambda: lambda label, seed: deadly(), count=1) as pool:
        with pytest.raises(
            UserMistake, match=r"9 actors died over turn -?\d of client \d; the last one said: \w+Error: "
        ):
            outcomes(experiment, Execution(partial(RayBackend, pool)))
        assert pool.replaced == actor_pool.DEATHS == 8


def actors_here() -> list[int]:
    """The processes of actors in this network: other clusters on the machine are none of ours."""
    mine, found = os.readlink("/proc/self/ns/net"), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is somebody else's
            title = (entry / "cmdline").read_bytes()
            if title.startswith(b"ray::TurnActor") and os.readlink(entry / "ns/net") == mine:
                found.append(int(entry.name))
    return found


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that is gone after the test, whatever comes of it."""
    process = subprocess.Popen(command(*arguments), stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("own", [False, True], ids=["a cluster by its address", "a cluster of its own"])
def test_who_asks_a_run_to_stop_is_heard_within_two_seconds_though_all_actors_are_frozen(ray, own, tmp_path):
    """Then Ray takes its time to shut down, frozen or not."""
    (tmp_path / "recipe.toml").write_text(write_experiment(experiment_of("fedbuff").replace(horizon=3000.0)))
    address = [] if own else ["--address", ray.get_runtime_context().gcs_address]
    out, others, frozen = tmp_path / "ray", set(actors_here()), set[int]()
    with started("run", tmp_path / "recipe.toml", "--out", out, "--engine", "ray", "--actors", 2, *address) as process:
        while process.poll() is None and len(frozen) < 2:
            time.sleep(0.05)
            frozen = set(actors_here()) - others
        time.sleep(3.0)  # by now they work
        for actor in frozen:
            os.kill(actor, signal.SIGSTOP)
        time.sleep(1.0)  # by now the run waits for them
        assert not list(out.glob("checkpoints/*.safetensors")), "the first is due after 30 s"
        process.send_signal(signal.SIGTERM)
        heard = seconds_until(lambda: bool(list(out.glob("checkpoints/*.safetensors"))))
        _, errors = process.communicate(timeout=60)
    print(f"all actors frozen, asked to stop: saved after {heard:.2f} s")
    assert heard < 2.0
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"go on with: idiolect resume {out} --engine ray" in errors
    assert seconds_until(lambda: not frozen & set(actors_here())) < 20, "nobody is left behind asleep"


def seconds_until(it_is_so: Callable[[], bool], most: float = 20.0) -> float:
    begin = time.monotonic()
    while not it_is_so() and time.monotonic() - begin < most:
        time.sleep(0.02)
    return time.monotonic() - begin
