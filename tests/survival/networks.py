"""Experiments without a server for tests on Ray: messages are lost, late and doubled, and agents sleep."""

from functools import cache
from typing import Any

import jax
import numpy as np

from idiolect.engines import Workers
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.running import Execution, Services, run_cells
from idiolect.experiments.value import Experiment

LINKS = {"wake": 0.6, "loss": 0.3, "gamma_f": 4, "gamma_d": 5, "duplication": 0.3}
# Sums, shares and copies; models and levels of one's own; numbers that differ from lane to lane.
ALGORITHMS: dict[str, list[dict[str, Any]]] = {
    "pars_push": [{"label": f"u{u}", "objective": {"steps": u, "step_size": 0.02}} for u in (1, 2)],
    "rasgp": [{}],
    "sgp": [{}],
    "dpsgd": [{}],
    "ditto_push": [{}],
    "qupel_push": [{"objective": {"bits": 1, "keep": []}}],
}


def network_of(name: str, rounds: int = 40, **changes: Any) -> Experiment:
    tables = {
        "seeds": [0, 1],
        "horizon": rounds,
        "problem": {"name": "quadratics", "clients": 7, "dimension": 3, "noise": 0.1},
        "topology": {"name": "ring", "directed": False},
        "links": LINKS,
        "training": {"step_size": 0.02, "batch_size": 4},
        "evaluation": {"points": 3, "steps": [0]},
        "algorithms": [{"name": name, **line} for line in ALGORITHMS[name]],
    }
    return parse_recipe({**tables, **changes})


def outcomes(
    experiment: Experiment, execution: Execution = Execution(), threads: int = 1, **services: Any
) -> list[Result]:
    with Workers(threads) as workers:
        return list(run_cells(experiment, Services(workers, execution=execution, **services)))


@cache
def plainly(name: str, **changes: Any) -> list[Result]:
    return outcomes(network_of(name, **changes))


def furthest(left: list[Result], right: list[Result]) -> float:
    """The largest difference between two runs in anything that they come to, beside 1 or the larger of the two."""
    assert [one.points[-1].updates for one in left] == [one.points[-1].updates for one in right]
    ends = [[(o.params, dict(o.personal), [p.reports for p in o.points]) for o in one] for one in (left, right)]
    pairs = zip(*map(jax.tree.leaves, ends), strict=True)
    return max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)), initial=0.0)) for a, b in pairs)
