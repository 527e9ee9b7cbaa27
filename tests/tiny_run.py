"""A run so small that a test can look at all of it."""

from pathlib import Path

from idiolect.cli import main

SETUP = """
[network]
download = { law = "fixed" }
spread = 0.0

[training]
local_steps = 2
step_size = 0.1
batch_size = 2

[evaluation]
points = 2
"""
TINY = """
seeds = [0, 1]
horizon = 20

[problem]
name = "quadratics"
clients = 5
dimension = 3
samples = 8
unseen = 0.2
"""
TINY += (
    SETUP
    + """
[[algorithms]]
name = "fedavg"

[[algorithms]]
name = "moreau+local"
label = "mine"
"""
)
LABELS, SEEDS = ["fedavg", "mine"], [0, 1]
CELLS = [f"{label}-seed{seed}" for label in LABELS for seed in SEEDS]


def tiny(folder: Path) -> str:
    """Where the recipe lies."""
    (folder / "tiny.toml").write_text(TINY)
    return str(folder / "tiny.toml")


def run_tiny(folder: Path) -> Path:
    """Run it undisturbed, in this folder."""
    assert main(["run", tiny(folder), "--out", str(folder / "out")]) == 0
    return folder / "out"
