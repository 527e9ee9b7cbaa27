"""Your PyTorch module and your data: personalized models for every user in a few lines.

Every user draws points in a plane and calls the same pictures by other names, so that no single model suits all.
`python examples/own_torch_model.py` trains FedAvg and PersA-FL-ME side by side, writes a report, and hands a user's
model back to PyTorch.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import idiolect
import idiolect.torch

USERS, SAMPLES, CLASSES = 12, 80, 4


def users() -> list[dict[str, np.ndarray]]:
    """Points around four centres; which centre is which class differs from user to user."""
    rng = np.random.default_rng(0)
    angles = 2 * np.pi * np.arange(CLASSES) / CLASSES
    centres = np.stack([np.cos(angles), np.sin(angles)], 1)
    found = []
    for _ in range(USERS):
        drawn, names = rng.integers(0, CLASSES, SAMPLES), np.roll(np.arange(CLASSES), rng.integers(0, 2))
        points = centres[drawn] + 0.35 * rng.standard_normal((SAMPLES, 2))
        found.append({"point": points.astype(np.float32), "label": names[drawn]})
    return found


def module() -> nn.Module:
    """Any module will do."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def loss(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean over a batch."""
    return nn.functional.cross_entropy(module(batch["point"]), batch["label"])


def right(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """One number for each sample."""
    return module(batch["point"]).argmax(-1) == batch["label"]


def experiment(horizon: float = 200.0, points: int = 10) -> idiolect.Experiment:
    """Two algorithms on the same users."""
    problem = idiolect.torch.problem(module(), loss, users(), score=right, name="points")
    training = idiolect.Training(local_steps=5, step_size=0.1, batch_size=16)
    scoring = idiolect.Evaluation(points=points, steps=[0, 1], step_size=0.1)
    return idiolect.Experiment(
        problem,
        ["fedavg", "persa_fl_me"],
        horizon=horizon,
        training=training,
        evaluation=scoring,
        name="own-torch-model",
    )


def main(out: str = "runs/own-torch-model", horizon: float = 200.0, points: int = 10) -> None:
    """Run it, and use what comes of it."""
    run = idiolect.run(experiment(horizon, points), out=out)
    for label, found in run.summary.algorithms.items():
        print(f"{label}: {found.participating['personalized'].mean:.3f} after adaptation")
    mine = module()
    mine.load_state_dict(run.state_dict(0, "persa_fl_me"))
    print(f"user 0 has {sum(parameter.numel() for parameter in mine.parameters())} parameters of its own")
    print(f"report: {Path(out) / 'report.html'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
