"""Devices and peers that learn from Parquet files of their own, as real processes."""

import json
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.deploy.loopback import free_endpoint, until
from tests.deploy.processes import Deployment
from tests.deploy.test_matrix import ledger
from tests.deploy.test_own_rows import experiment, rows

pytest.importorskip("zenoh")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.slow
KINDS = {"pages": int, "age": float, "bought": str}


def own_parquet(folder, client: int) -> str:
    mine = [row for row in rows() if row["user"] == f"u{client}"]
    path = folder / f"mine{client}.parquet"
    parquet.write_table(arrow.table({name: [kind(row[name]) for row in mine] for name, kind in KINDS.items()}), path)
    return str(path)


def test_devices_join_with_parquet_files(tmp_path):
    experiment(tmp_path)
    recipe = (tmp_path / "recipe.toml").read_text() + 'label = "mine"\n'
    with Deployment(tmp_path, recipe) as run:
        run.serve(updates=20)
        for number, name in enumerate(run.names):
            run.join(name, data=own_parquet(tmp_path, number))
        for who in ("server", *run.names):
            assert run.wait(who) == 0, run.said(who)
        assert {device["last"] is None for device in run.status()["devices"].values()} == {False}
        ledger(run)


def test_a_damaged_parquet_file_is_one_sentence(tmp_path):
    experiment(tmp_path)
    bad = tmp_path / "mine.parquet"
    bad.write_bytes(b"PAR1 and nothing else")
    command = ["join", "tcp/127.0.0.1:9", "--insecure", "--recipe", "recipe.toml", "--as", "alice", "--state", "a"]
    done = subprocess.run(
        [sys.executable, "-m", "idiolect", *command, "--data", str(bad)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "mine.parquet" in done.stderr
    assert "Traceback" not in done.stderr


def test_peers_learn_from_parquet_files(tmp_path):
    experiment(tmp_path, protocol="running_sum")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("horizon = 10\n" + recipe.read_text())
    peers = {f"a{number}": free_endpoint("tcp") for number in range(3)}
    lines = ['name = "office"', "[peers]", *(f'{name} = "{where}"' for name, where in peers.items()), "[links]"]
    lines += ['a0 = ["a1"]', 'a1 = ["a2"]', 'a2 = ["a0"]']
    (tmp_path / "graph.toml").write_text("\n".join(lines))
    with ExitStack() as stack:
        for number, name in enumerate(peers):
            command = ["peer", "recipe.toml", "--as", name, "--graph", "graph.toml", "--state", name, "--insecure"]
            command += ["--data", own_parquet(tmp_path, number), "--repeat", "0.2"]
            process = subprocess.Popen([sys.executable, "-m", "idiolect", *command], cwd=tmp_path)
            stack.callback(process.wait)
            stack.callback(process.kill)
        until(lambda: all(last_round(tmp_path / name) == 9 for name in peers), 300)


def last_round(folder) -> int:
    status = folder / "status.json"
    return json.loads(status.read_text())["round"] if status.exists() else -1
