"""Flower itself on loopback: a SuperLink, SuperNodes with keys, and a device beside each, as processes of their own.

Everything lies in one folder, listens on 127.0.0.1 alone, and ends with the test.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.deploy.loopback import issue_all, until
from tests.deploy.processes import RECIPE

PAGE = Path(__file__).parent.parent.parent / "docs" / "flower.md"
BIN = Path(sys.executable).parent


def app_of_the_page() -> str:
    """The pyproject.toml that the page shows."""
    (found,) = (
        block
        for block in re.findall(r"^```\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
        if "flwr" in block and "[project]" in block
    )
    return found


class FlowerDeployment:
    """Folders and processes of one run."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ("alice", "bob")) -> None:
        self.folder, self.names, self.out = folder, names, folder / "out"
        self.recipe = folder / "recipe.toml"
        self.recipe.write_text(RECIPE)
        self.address = f"127.0.0.1:{free_port()}"
        (folder / "app").mkdir()
        (folder / "app" / "pyproject.toml").write_text(app_of_the_page())
        (folder / "flwr").mkdir()
        self.keys = issue_all(folder / "keys", [])
        local = f'[superlink.here]\naddress = "{self.address}"\nroot-certificates = "{self._authority}"\n'
        (folder / "flwr" / "config.toml").write_text(local)
        self._environment = {
            **os.environ,
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "FlowerDeployment":
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes.values()):  # each with what it has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    @property
    def _authority(self) -> Path:
        return self.keys / "server" / "ca.pem"

    def start_link(self) -> None:
        host, port = self.address.split(":")
        where = ["--host", host, "--port", port, "--database", self.folder / "link.db"]
        mine = self.keys / "server"
        safe = [
            "--ssl-certfile",
            mine / "cert.pem",
            "--ssl-keyfile",
            mine / "key.pem",
            "--ssl-ca-certfile",
            mine / "ca.pem",
        ]
        only = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        self._start("superlink", "flower-superlink", *where, *safe, *only)
        until(lambda: is_open(self.address), 120)

    def start_node(self, name: str) -> None:
        key = ec.generate_private_key(ec.SECP384R1())
        ssh, openssh = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
        private = self.folder / f"{name}.key"
        private.write_bytes(key.private_bytes(ssh, openssh, serialization.NoEncryption()))
        kinds = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        private.with_suffix(".pub").write_bytes(key.public_key().public_bytes(*kinds))
        self.flwr("supernode", "register", private.with_suffix(".pub"), "here")
        self.restart_node(name)

    def restart_node(self, name: str) -> None:
        state = f'idiolect="{self.folder / name}"'
        where = [
            "--superlink",
            self.address,
            "--root-certificates",
            self._authority,
            "--port",
            str(free_port()),
            "--node-config",
            state,
        ]
        self._start(
            f"node {name}", "flower-supernode", *where, "--auth-supernode-private-key", self.folder / f"{name}.key"
        )

    def start_device(self, name: str) -> None:
        mine = ["--as", name, "--data", f"recipe:{self.names.index(name)}", "--state", self.folder / name]
        self._start(name, "python", "-m", "idiolect", "join", "flower", "--recipe", self.recipe, *mine)

    def run(self, **config: Any) -> str:
        """Start the app; the number of its run."""
        told = {"recipe": str(self.recipe), "out": str(self.out), **config}
        said = " ".join(f"{name}={json.dumps(value)}" for name, value in told.items())
        found = json.loads(self.flwr("run", self.folder / "app", "here", "--run-config", said, "--format", "json"))
        return str(found["run-id"])

    def state_of(self, run: str) -> str:
        """What Flower says of a run, such as running or finished:completed."""
        (found,) = json.loads(self.flwr("list", "here", "--run-id", run, "--format", "json"))["runs"]
        return str(found["status"])

    def flwr(self, *words: Any) -> str:
        """What a command of Flower's prints."""
        done = subprocess.run(
            [str(BIN / "flwr"), *map(str, words)], env=self._environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def kill(self, who: str) -> None:
        os.killpg(self.processes[who].pid, signal.SIGKILL)
        self.processes[who].wait()

    def wait(self, who: str, seconds: float = 300.0) -> int:
        return self.processes[who].wait(seconds)

    def status(self) -> dict[str, Any]:
        path = self.out / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"updates": -1, "devices": {}}

    def said(self, who: str) -> str:
        return (self.folder / f"{who}.log").read_text()

    def _start(self, who: str, program: str, *words: Any) -> None:
        with open(self.folder / f"{who}.log", "ab") as log:
            self.processes[who] = subprocess.Popen(
                [str(BIN / program), *map(str, words)],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_open(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as trial:
        return trial.connect_ex((host, int(port))) == 0
