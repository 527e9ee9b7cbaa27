"""How many turns an accelerator computes at once, and what becomes of a batch that is not full."""

import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import Choice, Experiment, UserMistake, catalog, run
from idiolect.engines import Workers, prepare
from idiolect.engines.backend import Job
from idiolect.engines.side_by_side import WIDEST, SideBySide, accelerator_memory, width_for
from idiolect.problems.synthetic import quadratics


@pytest.mark.parametrize(
    ("model", "memory", "width"),
    [
        (4_000, None, 1),  # a CPU, or who does not tell
        (4_000, 16 * 2**30, WIDEST),
        (100 * 2**20, 16 * 2**30, 5),  # a quarter of the memory holds 40 models, eight for each turn
        (8 * 2**30, 16 * 2**30, 1),
    ],
)
def test_as_many_turns_as_memory_holds(model, memory, width):
    assert width_for(model, memory) == width


def test_a_cpu_computes_one_turn_at_a_time_unless_told_otherwise():
    assert accelerator_memory() is None


def test_a_batch_begins_when_it_is_full_or_one_of_its_turns_is_needed():
    problem = quadratics(clients=4, dimension=2, samples=20)
    program = prepare(problem, catalog.algorithm("fedasync", problem, local_steps=2))
    calls = []

    def turns(personals, offers, shards, key, numbers):
        calls.append(numbers.tolist())
        return [jnp.full(1, number) for number in numbers]

    with Workers(2) as workers:
        backend = SideBySide(program._replace(turns=turns), problem.clients, workers, seed=0, width=3)
        first, second, third, fourth = (backend.submit(Job(turn, turn, (), 0, ())) for turn in range(4))
        assert calls == [[0, 1, 2]]
        assert [place.result().item() for place in (third, first, second)] == [2, 0, 1]
        assert backend.ready({3: fourth}, seconds=5.0) == [3]
        assert calls == [[0, 1, 2], [3, 3, 3]]
        assert fourth.result().item() == 3


def test_a_recipe_says_how_many_and_its_folder_remembers_it(tmp_path):
    problem = Choice("quadratics", {"clients": 5, "dimension": 3})
    mine = Experiment(problem, ["fedasync", "scaffold"], horizon=30.0, training={"step_size": 0.02})
    ends = {}
    for width in (1, 3):
        found = run(mine.replace(training={"step_size": 0.02, "side_by_side": width}), out=tmp_path / str(width))
        ends[width] = [found.model(0, label) for label in ("fedasync", "scaffold")]
    np.testing.assert_allclose(ends[1], ends[3], rtol=1e-4)
    assert "side_by_side = 3" in (tmp_path / "3" / "recipe.toml").read_text()
    with pytest.raises(UserMistake, match="side_by_side is 0"):
        mine.replace(training={"side_by_side": 0})
