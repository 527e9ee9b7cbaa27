"""Two recipes to try things on: one with every table there is, and a small one."""

from pathlib import Path

import pytest

FULL = """
name = "everything"
description = "every table there is"
seeds = [3, 4]
horizon = 50
timeline = "some.csv"

[problem]
name = "digits"
clients = 6
samples = 500
unseen = 0.5
shares = { train = 0.5, adapt = 0.2, validation = 0.1 }
partition = { name = "dirichlet", a = 0.3 }
model = { name = "cnn", channels = [4], kernel = 3, dropout = 0.1 }

[network]
download = { law = "gamma", mean = 2, variation = 0.3 }
upload = { law = "fixed", mean = 3 }
upload_ratio = [2, 3]
dropout = 0.1

[training]
local_steps = 3

[evaluation]
points = 4
steps = [0, 2, 7]
split = "validation"
at_most = 3
headline = "own"

[screening]
policy = "clip"
too_large = 100

[attack]
clients = 0.2
kind = "noise"

[[algorithms]]
name = "persa_fl_me"
label = "mine"
objective = { lambda = 12, inner_step_size = 0.01 }
protocol = { staleness = "hinge" }
training = { step_size = 0.5 }

[[algorithms]]
name = "maml+buffered"
protocol = { size = 3, combine = "trimmed_mean", clip_norm = 2 }
attack = { clients = [1, 2], kind = "nan" }
"""


BASE = """
seeds = [0, 1]
horizon = 100

[problem]
name = "digits"
partition = { name = "by_classes", classes = 5 }
model = { name = "mlp" }

[evaluation]
steps = [0, 1]

[[algorithms]]
name = "fedavg"

[[algorithms]]
name = "persa_fl_me"
"""


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small recipe for settings to be tried on."""
    path = tmp_path_factory.mktemp("recipes") / "base.toml"
    path.write_text(BASE)
    return str(path)


@pytest.fixture
def full(tmp_path: Path) -> str:
    path = tmp_path / "full.toml"
    path.write_text(FULL)
    return str(path)
