"""Parts of a network, played one beside the other in this process: what actors do, without the actors."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest

from idiolect.engines.ray.agent_parts import cut, heard_from, parts_of, put_together, rows_kinds, settings_of
from idiolect.engines.ray.agent_stage import build_stage, heard_by, put_back, said_in
from idiolect.engines.ray.packing import packed
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
