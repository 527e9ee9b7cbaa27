"""Fig. 2a's share of active clients: renewal theory against timelines that are drawn."""

import numpy as np
import pytest

from idiolect.contracts import Schedule
from idiolect.network import Delay, Network, draw_timeline
from idiolect.papers.schedule_exhibits import _idling, busy, share_of, share_of_client

FREE = Schedule(rounds=False)


def drawn(network, clients, until):
    table = draw_timeline(network, list(range(clients)), FREE, horizon=2 * until, seed=0)
    return busy(table, clients, until)


def test_one_client_in_the_long_run():
    network = Network(upload_ratio=(5.0, 5.0), spread=0.0)
    assert share_of_client(network, 1.0, 5.0) == pytest.approx(6.1 / 7.6)
    assert share_of(network) == pytest.approx(6.1 / 7.6)
    assert drawn(network, 1, 40_000.0) == pytest.approx(6.1 / 7.6, abs=0.01)


@pytest.mark.parametrize(
    "network",
    [
        Network(),
        Network(spread=1.0, idle=Delay("fixed", 4.0)),
        Network(upload=Delay("gamma", 2.0), compute=Delay("fixed", 1.0)),
    ],
)
def test_many_clients_in_the_long_run(network):
    assert drawn(network, 2000, 400.0) == pytest.approx(share_of(network), abs=0.015)


def test_the_80_percent_are_the_idle_times():
    """As printed, with no time for anything but messages, nobody is ever idle; a quarter of a turn gives 80 %."""
    assert share_of(Network(idle=Delay(mean=0.0))) == 1.0
    assert share_of(Network()) == pytest.approx(0.79, abs=0.01)
    assert share_of(Network(idle=Delay(mean=6.0))) < 0.55
    shares = [float(row[1]) for row in _idling().rows]
    assert shares == sorted(shares, reverse=True)
    assert np.ptp(shares) > 0.4
    assert "as printed" in _idling().rows[0][0]
    assert "default" in _idling().rows[2][0]
