"""The Python interface: a recipe, or a problem of your own, in one call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from idiolect import catalog
from idiolect.building import Setting, check_timeline
from idiolect.contracts import Problem
from idiolect.engines import Workers
from idiolect.evaluation import OWN, Budget
from idiolect.experiment import Outcome, prepare_cell, run_cell
from idiolect.network import Network, Timeline, draw_timeline
from idiolect.recipes import load_recipe


def run(recipe: str = "demo", *settings: str, out: str | Path, data_dir: str | Path | None = None) -> dict[str, Any]:
    """Run a recipe into the folder `out` and return its summary: what `idiolect run` does.

    `settings` are `path.to.key=value` strings. A run that was interrupted goes on.
    """
    from idiolect.runs import run_recipe

    folder = None if data_dir is None else Path(data_dir)
    return run_recipe(load_recipe(recipe, list(settings)), Path(out), data_dir=folder)


def learn(
    problem: Problem,
    algorithm: str = "persa_fl_me",
    *,
    objective: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
    local_steps: int = 10,
    step_size: float = 0.01,
    batch_size: int = 32,
    network: Network = Network(),
    timeline: Timeline | None = None,
    horizon: float = 200.0,
    points: int = 10,
    budget: Budget = Budget(),
    seed: int = 0,
) -> Outcome:
    """Run one algorithm (a name of the catalog, or `objective+protocol`) on a problem, in virtual time."""
    chosen = catalog.algorithm(
        algorithm,
        problem,
        objective=objective,
        protocol=protocol,
        local_steps=local_steps,
        step_size=step_size,
        batch_size=batch_size,
    )
    participating = problem.clients.participating
    if timeline is None:
        table = draw_timeline(network, participating, chosen.protocol.schedule, horizon=horizon, seed=seed)
    else:
        table = check_timeline(timeline, chosen, participating)
        horizon = float(table.arrived.max())
    setting = Setting(np.linspace(0, horizon, points + 1).tolist(), budget, OWN)
    with Workers() as workers:
        return run_cell(prepare_cell(problem, chosen, budget), problem.clients, table, setting, workers, seed=seed)
