"""Who loses by personalization, against a count by hand."""

import math

import pytest

from idiolect.evaluation.scores import Group
from idiolect.experiments.records import CellRecord, ClientRecord
from idiolect.network import topology
from idiolect.network.round_tables import rounds
from idiolect.network.timelines import timeline
from idiolect.report.changes import changes, tally
from idiolect.report.client_traits import Traits, traits_of
from idiolect.report.report_data import PageCell, ReportData
from idiolect.results.traits import ClientTraits

BEFORE, AFTER = [0.5, 0.6, 0.7, 0.8], [0.9, 0.5, 0.7, 0.5]  # gains of 0.4, -0.1, 0 and -0.3


def client(number: int, group: Group, samples: int, before: float, after: float) -> ClientRecord:
    return ClientRecord(number, group, samples, {"0": before, "own": after}, {}, 32.0, 4)


def cell(*, higher: bool = True, seed: int = 0, ended: str = "", shares: bool = True) -> CellRecord:
    clients = [
        client(k, "participating", 10 * (k + 1), before, after)
        for k, (before, after) in enumerate(zip(BEFORE, AFTER, strict=True))
    ]
    stranger = client(4, "unseen", 1, 1.0, 0.0)
    return CellRecord("mine", seed, "score", higher, {}, 0.0, [], ended, shares, [], [*clients, stranger])


def report_data(*cells: CellRecord, after: str = "own") -> ReportData:
    traits = {("mine", c.seed): {k: Traits(samples=10.0 * (k + 1)) for k in range(4)} for c in cells}
    return ReportData([], ["mine"], [PageCell("mine", c, "0", after) for c in cells], [], {}, traits, {})


def test_losers_are_those_whose_score_falls():
    found = tally(changes(report_data(cell()))["mine"])
    assert (found.clients, found.hurt) == (4, 2)
    assert found.mean_gain == pytest.approx(0.0)
    assert found.mean_loss == pytest.approx(0.2)
    assert found.worst_gain == pytest.approx(-0.1), "the lowest score after it, the first of two alike"
    # Ranks of the gains are 4, 2, 3, 1 and those of the samples 1, 2, 3, 4: 1 - 6 (9 + 0 + 0 + 9) / (4 (16 - 1)).
    assert found.ranks["samples"] == pytest.approx(1 - 6 * 18 / 60)
    assert math.isnan(found.ranks["label_skew"])


def test_of_a_loss_those_lose_whose_score_rises():
    found = tally(changes(report_data(cell(higher=False)))["mine"])
    assert (found.clients, found.hurt) == (4, 1)
    assert found.mean_loss == pytest.approx(0.4)
    assert found.worst_gain == pytest.approx(-0.4)


def test_all_seeds_count_but_not_those_that_ended_before_their_time():
    assert tally(changes(report_data(cell(), cell(seed=1)))["mine"]).hurt == 4
    assert changes(report_data(cell(ended="gone wild"))) == {}
    assert changes(report_data(cell(), after="0")) == {}, "one and the same model"


def test_turns_and_staleness_are_those_of_the_timeline():
    """Client 0 delivers twice while client 1 works; client 2 delivers nothing, and client 3 is never asked."""
    table = timeline([0, 1, 0, 2], [0.0, 0.0, 1.0, 0.0], [1.0, 3.0, 2.0, 4.0], delivered=[True, True, True, False])
    found = traits_of(cell(), table, {1: ClientTraits(25, 0.25)})
    assert found[0] == Traits(10, None, 0.0, 2)
    assert found[1] == Traits(25, 0.25, 2.0, 1), "what was noted, and not only what it is scored on"
    assert found[2] == Traits(30, None, None, 0)
    assert found[3] == Traits(40, None, None, 0)
    assert traits_of(cell(shares=False), table, {})[1].staleness is None, "who shares no model has no old one"


def test_agents_are_asked_how_often_they_are_awake_and_how_old_what_they_hear_is():
    graph = topology(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    awake = [[True, True, True, True], [True, False, True, True], [True, True, True, False]]
    table = rounds(graph, awake, [(0, 1, 0, 1), (0, 1, 1, 2), (2, 3, 0, 0)])
    found = traits_of(cell(), table, {})
    assert [found[k].participation for k in range(4)] == [3, 2, 3, 2]
    assert [found[k].staleness for k in range(4)] == [None, 1.5, None, 0.0]
