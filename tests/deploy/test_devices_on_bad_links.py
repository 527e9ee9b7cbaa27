"""A server and its devices on a real link that loses packets and is cut for longer than a lease, and heals."""

import time

import pytest

from idiolect.deploy import keys
from tests.deploy import lossy_cable
from tests.deploy.loopback import until
from tests.deploy.namespaces import cable, spaces
from tests.deploy.processes import Deployment
from tests.deploy.test_matrix import finish

pytest.importorskip("zenoh")
pytestmark = pytest.mark.slow
__all__ = ["spaces"]  # a fixture
NO_END, LEASE = 10_000, 20.0


def test_a_server_and_its_devices_are_cut_apart_and_healed_and_no_update_is_lost_or_doubled(tmp_path, spaces):
    cut, here = tmp_path / "cut", {"space": spaces[0]}
    with Deployment(tmp_path) as run, cable(spaces, 0.05, cut):
        keys.issue(run.keys, "server", hosts=[lossy_cable.ADDRESSES[0]])
        run.endpoint = f"tls/{lossy_cable.ADDRESSES[0]}:7447"
        run.serve(updates=NO_END, **here)
        for name in run.names:
            run.join(name, space=spaces[1])
        run.until_updates(6)
        cut.touch()
        time.sleep(LEASE + 10)
        before = run.status()["updates"]
        time.sleep(5)
        assert run.status()["updates"] == before, "cut apart, nothing comes"
        assert all(run.processes[who].is_alive() for who in ("server", *run.names))
        cut.unlink()
        until(lambda: run.status()["updates"] > before, 300)
        run.kill("server")
        finish(run, run.status()["updates"] + 20, **here)
