"""Agents in memory: whatever is lost, doubled, reordered, killed or put back, mass is kept and weights stay sound."""

import functools

import numpy as np
import pytest

from idiolect.network.topologies import erdos_renyi
from idiolect.protocols import running_sum
from tests.deploy.storm import Storm, agents_on

GRAPH = erdos_renyi(probability=0.4)(4, np.random.default_rng(3))


@functools.cache
def compiled():
    return agents_on(GRAPH, running_sum())


def in_a_storm(seed: int, events: int, rollbacks: bool) -> Storm:
    storm = Storm(GRAPH, compiled(), seed)
    rng, names = np.random.default_rng([seed, 1]), list(storm.agents)
    for _ in range(events):
        name, chance = names[rng.integers(len(names))], rng.random()
        if chance < 0.6:
            storm.deliver()
        elif chance < 0.9:
            storm.wake(name, patient=rng.random() < 0.1)
        elif chance < 0.96:
            storm.wake(name, False, dies=str(rng.choice(["before saving", "before sending"])))
        elif rollbacks:
            storm.restart(name, back=int(rng.choice([1, 3, 10, 10**6])))  # the last is a lost disk
    return storm


def sound(storm: Storm) -> None:
    stock = storm.stock()
    assert abs(float(stock.leaked.y)) < 1e-9
    assert np.abs(stock.leaked.x).max() < 1e-9 * (1 + np.abs(np.asarray(stock.with_agents.x)).max())
    assert storm.spoken_below_zero == 0


@pytest.mark.parametrize("seed", range(4))
def test_kills_between_any_two_steps_lose_nothing_and_every_weight_stays_positive(seed):
    storm = in_a_storm(seed, 400, rollbacks=False)
    sound(storm)
    assert storm.wakings > 40
    assert storm.rebirths == 0
    assert min(storm.weights()) > 0


@pytest.mark.parametrize("seed", range(6))
def test_disks_that_are_put_back_or_lost_leak_nothing_and_nobody_speaks_below_zero(seed):
    storm = in_a_storm(seed, 500, rollbacks=True)
    assert storm.rebirths > 3
    sound(storm)
    before = storm.wakings
    storm.quiet(60)
    sound(storm)
    assert storm.wakings > before + 60, "after the storm, all go on"
    assert min(storm.weights()) > 0
    assert float(storm.stock().with_agents.y) + float(storm.stock().recoverable.y) == pytest.approx(4, abs=1e-9)
