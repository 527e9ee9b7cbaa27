"""Everything works where JAX has 64-bit numbers enabled, and gives what it gives in 32 bits, to rounding."""

import os
import subprocess
import sys

import pytest

from idiolect import learn
from idiolect.problems.synthetic import quadratics

SETTINGS = {"horizon": 40, "step_size": 0.05, "points": 1}
PROGRAM = """
from idiolect import learn
from idiolect.problems.synthetic import quadratics

for name in {names}:
    print(learn(quadratics(clients=4), name, **{settings}).points[-1].scores["participating"]["own"].mean)
"""


def test_learning_in_64_bits():
    names = ["fedbuff", "pfedme", "rasgp"]
    environment = {**os.environ, "JAX_ENABLE_X64": "1"}
    command = [sys.executable, "-c", PROGRAM.format(names=names, settings=SETTINGS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, text in zip(names, done.stdout.split(), strict=True):
        narrow = learn(quadratics(clients=4), name, **SETTINGS).points[-1].scores["participating"]["own"].mean
        assert float(text) == pytest.approx(narrow, rel=1e-3), name
