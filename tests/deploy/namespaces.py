"""Two network namespaces and a cable between them, for tests."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy import lossy_cable


@pytest.fixture
def spaces():
    """Two network namespaces, where they can be made."""
    if shutil.which("ip") is None or os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        pytest.skip("needs root, `ip` and /dev/net/tun")
    names = [f"idiolect-{os.getpid()}-{end}" for end in "ab"]
    for name in names:
        if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
            pytest.skip("network namespaces cannot be made here")
    yield names
    for name in names:
        subprocess.run(["ip", "netns", "del", name], check=True)


@contextlib.contextmanager
def cable(spaces, loss: float, cut: Path):
    command = [sys.executable, lossy_cable.__file__, *spaces, str(loss), "1", str(cut)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "plugged in\n"
            yield
        finally:
            process.kill()
