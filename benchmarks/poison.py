"""What lies cost, and what defences cost honest clients: attacks x defences, and how long honest updates get.

`python benchmarks/poison.py honest` runs every algorithm with a server on non-IID digits and quadratics without any
liar, and prints by how much the longest update exceeds the median over clients: `screening.too_large` must be more.
`python benchmarks/poison.py table` prints mean scores over seeds for every attack and every defence. Both are
deterministic: no clock is read.
"""

import sys
from typing import Any

import jax
import numpy as np

from idiolect import catalog
from idiolect.contracts import Peer
from idiolect.engines import Workers, screening
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.running import Services, run_cells

SEEDS = [0, 1, 2]
PROBLEMS: dict[str, dict[str, Any]] = {
    "digits, two classes a client": {"name": "digits", "clients": 20, "partition": {"name": "by_classes"}},
    "digits, Dirichlet 0.1": {"name": "digits", "clients": 20, "partition": {"name": "dirichlet", "a": 0.1}},
    "quadratics": {"name": "quadratics", "clients": 20, "heterogeneity": 5.0},
    "navigation": {"name": "navigation", "clients": 4, "size": 3, "horizon": 4, "episodes": 4},
}
ATTACKS: dict[str, dict[str, Any] | None] = {
    "nobody lies": None,
    "1 of 20, flipped x 30": {"clients": [7], "kind": "sign_flip", "scale": 30.0},
    "1 of 20, flipped x 4": {"clients": [7], "kind": "sign_flip", "scale": 4.0},
    "4 of 20, flipped x 4": {"clients": 0.2, "kind": "sign_flip", "scale": 4.0},
    "4 of 20, flipped": {"clients": 0.2, "kind": "sign_flip", "scale": 1.0},
    "4 of 20, noise x 10": {"clients": 0.2, "kind": "noise", "scale": 10.0},
}
DEFENCES: dict[str, tuple[dict[str, Any], float]] = {  # all but the first screen at 10
    "mean, too_large 1e4": ({}, 1e4),
    "mean, too_large 10": ({}, 10.0),
    "median": ({"combine": "median"}, 10.0),
    "trimmed_mean": ({"combine": "trimmed_mean"}, 10.0),
    "geometric_median": ({"combine": "geometric_median"}, 10.0),
    "centered_clipping": ({"combine": "centered_clipping"}, 10.0),
    "krum": ({"combine": "krum"}, 10.0),
}


def outcomes(
    problem: dict[str, Any],
    algorithms: list[dict[str, Any]],
    seeds: list[int],
    attack: dict[str, Any] | None = None,
    too_large: float | None = None,
    horizon: float = 150.0,
) -> list[Result]:
    """Every algorithm on every seed."""
    tables = {
        "seeds": seeds,
        "horizon": horizon,
        "problem": problem,
        "training": {"local_steps": 10, "step_size": 0.1, "batch_size": 16},
        "evaluation": {"points": 1},
        "algorithms": algorithms,
    }
    tables |= {} if attack is None else {"attack": attack}
    tables |= {} if too_large is None else {"screening": {"too_large": too_large}}
    with Workers() as workers:
        return list(run_cells(parse_recipe(tables), Services(workers)))


def honest() -> None:
    """The longest honest update, in units of what is typical when it comes."""
    ratios: list[float] = []
    plain = screening.screen

    def watched(watch: Any, upload: Any, long: Any, client: Any, params: Any, rule: Any, **more: Any) -> Any:
        jax.debug.callback(lambda ratio: ratios.append(float(ratio)), long / screening.typical(watch, params))
        return plain(watch, upload, long, client, params, rule, **more)

    screening.screen = watched
    server = [n for n in catalog.ALGORITHMS if not isinstance(catalog.protocol_of(n, {}), Peer) and n != "local"]
    for where, problem in PROBLEMS.items():
        for name in server:
            ratios.clear()
            try:
                outcomes(problem, [{"name": name}], [0])
            except Exception as reason:
                print(f"| {where} | {name} | {type(reason).__name__}: {str(reason)[:60]} |", flush=True)
                continue
            jax.effects_barrier()  # type: ignore[no-untyped-call]
            found = np.array(ratios)
            found = found[np.isfinite(found)]
            above = [int((found > level).sum()) for level in (3, 10, 30, 100)]
            print(f"| {where} | {name} | {len(found)} | {found.max(initial=0):.3g} | {above} |", flush=True)


def table() -> None:
    """Mean accuracy of clients' models as received, over seeds, and how many updates of honest clients were refused."""
    problem = PROBLEMS["digits, Dirichlet 0.1"]
    print(f"| attack | {' | '.join(DEFENCES)} |", flush=True)
    for attack, table in ATTACKS.items():
        row = []
        for options, too_large in DEFENCES.values():
            found = outcomes(problem, [{"name": "fedavg", "protocol": options}], SEEDS, table, too_large)
            scores = [one.points[-1].scores["participating"]["0"].mean for one in found]
            liars = table["clients"] if table and isinstance(table["clients"], list) else list(range(4, 20, 5))
            tallies = [(c, sum(why.values())) for one in found for c, why in one.record.refusals.items()]
            honest = sum(count for c, count in tallies if c not in liars)
            row.append(
                f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f}" + (f" ({honest} refused)" if honest else "")
            )
        print(f"| {attack} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    {"honest": honest, "table": table}[sys.argv[1]]()
