"""Parts of a network, played one beside the other in this process: what actors do, without the actors."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from idiolect.engines.ray.agent_parts import cut, heard_from, parts_of, put_together, rows_kinds, settings_of
from idiolect.engines.ray.agent_stage import OutOfStep, build_stage, heard_by, put_back, said_in
from idiolect.engines.ray.packed_arrays import packed
from idiolect.engines.serverless import Lane, PeerProgram
from idiolect.engines.serverless.layout import Layout, State
from idiolect.experiments.running import Execution
from idiolect.experiments.sources import cell_maker, source_of
from idiolect.experiments.value import Experiment
from tests.survival.networks import furthest, network_of, outcomes, plainly


class Parts:
    """All parts of a network, half a round after half a round."""

    seconds = 0.0

    def __init__(
        self, experiment: Experiment, count: int, program: PeerProgram, lanes: Sequence[Lane], layout: Layout, ring: int
    ) -> None:
        ends = np.asarray(layout.sources), np.asarray(layout.targets)
        self.parts = parts_of(*ends, len(lanes), len(layout.degrees), count)
        self.hears = heard_from(self.parts)
        seeds = tuple(lane.seed for lane in lanes)
        settings = settings_of(layout, self.parts, program.algorithm.name, seeds, ring)
        make = cell_maker(source_of(experiment))
        with jax.enable_x64(False):
            self.stages = [build_stage(make, setting) for setting in settings]

    def play(self, state: State, start: int, stop: int, moment: Callable[[], None]) -> State:
        kinds, leaves = rows_kinds(state), list(map(np.asarray, jax.tree.leaves(state)))
        for number, part in enumerate(self.parts):
            sent = packed([[cut(leaf, kind, part) for leaf, kind in zip(leaves, kinds, strict=True)]])
            self.stages[number] = put_back(self.stages[number], start, range(len(leaves)), sent)
        for t in range(start, stop):
            halves = [said_in(stage, t) for stage in self.stages]
            told = [said for _, said in halves]
            self.stages = [
                heard_by(stage, t, [told[other] for other in hears])
                for (stage, _), hears in zip(halves, self.hears, strict=True)
            ]
        found = [[np.asarray(leaf) for leaf in jax.tree.leaves(stage.state)] for stage in self.stages]
        return put_together(state, self.parts, found)


def in_parts(experiment: Experiment, count: int) -> Execution:
    return Execution(crew=lambda *network: Parts(experiment, count, *network))


@pytest.mark.parametrize(("name", "count"), [("pars_push", 2), ("sgp", 3), ("dpsgd", 7), ("qupel_push", 2)])
def test_parts_come_to_what_the_whole_comes_to(name, count):
    experiment = network_of(name)
    apart = furthest(outcomes(experiment, in_parts(experiment, count)), plainly(name))
    print(f"{name} in {count} parts: {apart:.1e} from the whole")
    assert apart < 1e-6


def test_private_layers_stay_with_their_agents():
    model = {"name": "mlp", "hidden": [4]}
    changes = {
        "seeds": [0],
        "problem": {"name": "digits", "clients": 4, "model": model},
        "algorithms": [{"name": "sgp", "private": ["last"]}],
    }
    experiment = network_of("sgp", rounds=6, **changes)
    found, whole = outcomes(experiment, in_parts(experiment, 2)), outcomes(experiment)
    assert found[0].personal, "something is private"
    assert furthest(found, whole) < 1e-6


def test_a_round_that_does_not_follow_the_last_one_is_refused():
    """A call that has failed leaves an actor behind the others; what it would say then is nonsense."""
    experiment, made = network_of("sgp", rounds=3), list[Parts]()

    def make(*network: Any) -> Parts:
        made.append(Parts(experiment, 2, *network))
        return made[-1]

    outcomes(experiment, Execution(crew=make))
    stage = made[0].stages[0]
    assert stage.round == 3
    with pytest.raises(OutOfStep, match="round 5 was asked for, but 3 is next"):
        said_in(stage, 5)
    with pytest.raises(OutOfStep, match="messages of round 3 have come"):
        heard_by(stage, 3, [])


def test_only_what_is_taken_in_elsewhere_travels():
    """A ring in two halves: of seven agents, four have a neighbour in the other half."""
    experiment, speakers = network_of("sgp"), list[np.ndarray]()

    def make(program: PeerProgram, lanes: Sequence[Lane], *network: Any) -> Parts:
        parts = Parts(experiment, 2, program, lanes, *network)
        speakers.extend(stage.setting.speaks.any(0) for stage in parts.stages)
        return parts

    outcomes(experiment, Execution(crew=make))
    first, second = speakers
    assert first.tolist() == [True, False, False, True] * 2, "agents 0 to 3 of both seeds"
    assert second.tolist() == [True, False, True] * 2
