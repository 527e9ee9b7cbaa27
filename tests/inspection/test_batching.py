"""What inspect says of turns that are computed at once, and on how many devices."""

import pytest

from idiolect.engines.side_by_side import Batching
from idiolect.inspection.cost_estimate import Cost, Estimate
from idiolect.inspection.inspection_tables import batching_lines, cost_lines


def estimate(*kinds: Batching | None) -> Estimate:
    costs = [Cost(f"a{number}", 1, 0.0, 0.0, 0.0, 0.0, 0, 0, batching=kind) for number, kind in enumerate(kinds)]
    return Estimate(1, 1, costs, None, 1, 1, 2, 1.0)


CPU, ASKED = Batching(1, 4_000, None, 1, asked=False), Batching(8, 4_000, None, 4, asked=True)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (CPU, "one turn at a time on this device, as CPUs do unless training.side_by_side says otherwise."),
        (ASKED, "8 turns at a time on each of 4 devices, as training.side_by_side says."),
        (
            Batching(5, 100 * 2**20, 16 * 2**30, 2, asked=False),
            "5 turns at a time on each of 2 devices, a quarter of its 16 GiB holds that many models of 100 MiB, "
            "8 each.",
        ),
    ],
)
def test_how_many_and_why(kind, sentence):
    assert batching_lines(estimate(kind)) == [f"a0: {sentence}"]
    assert f"a0: {sentence}" in cost_lines(estimate(kind))


def test_algorithms_of_a_kind_share_a_sentence_and_agents_without_a_server_have_none():
    told = batching_lines(estimate(CPU, None, ASKED, CPU))
    assert [line.split(":")[0] for line in told] == ["a0, a3", "a2"]
