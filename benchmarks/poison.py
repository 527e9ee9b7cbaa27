"""What lies cost, and what defences cost honest clients: attacks x defences, and how long honest updates get.

`python benchmarks/poison.py honest [ALGORITHM …]` runs these algorithms, or all that have a server, on non-IID problems
without any liar. It prints by how much the longest update exceeds the median over clients, since `screening.too_large`
must be more, and how far updates point away from what others sent, since `screening.least_cosine` must be less.
`python benchmarks/poison.py table PROBLEM [ATTACK …]` prints mean scores over seeds for every attack and every defence.
All is deterministic: no clock is read.
"""

import sys
from typing import Any

import jax
import numpy as np

from idiolect import catalog
from idiolect.contracts import Peer
from idiolect.engines import Workers, directions, screening
from idiolect.errors import Diverged, UserMistake
from idiolect.experiments.cell_results import Result
from idiolect.experiments.recipe_files import parse_recipe
from idiolect.experiments.running import Services, run_cells
from idiolect.network.timelines import Timeline
from idiolect.protocols.attacks import Attack, attackers

CLIENTS, SEEDS, HORIZON, HONEST_HORIZON = 20, [0, 1, 2], 150.0, 60.0
TRAINING = {"local_steps": 10, "step_size": 0.1, "batch_size": 16}
PROBLEMS: dict[str, dict[str, Any]] = {
    "two classes": {"name": "digits", "clients": CLIENTS, "partition": {"name": "by_classes", "classes": 2}},
    "dirichlet 0.1": {"name": "digits", "clients": CLIENTS, "partition": {"name": "dirichlet", "a": 0.1}},
    "dirichlet 1": {"name": "digits", "clients": CLIENTS, "partition": {"name": "dirichlet", "a": 1.0}},
    "quadratics": {"name": "quadratics", "clients": CLIENTS, "heterogeneity": 5.0},
    "navigation": {"name": "navigation", "clients": 8, "size": 3, "horizon": 4, "episodes": 4},
}
ATTACKS: dict[str, dict[str, Any] | None] = {
    "nobody lies": None,
    "1 of 20, flipped x 30": {"clients": [7], "kind": "sign_flip", "scale": 30.0},
    "1 of 20, flipped x 4": {"clients": [7], "kind": "sign_flip", "scale": 4.0},
    "4 of 20, flipped x 4": {"clients": 0.2, "kind": "sign_flip", "scale": 4.0},
    "4 of 20, flipped": {"clients": 0.2, "kind": "sign_flip", "scale": 1.0},
    "4 of 20, noise x 10": {"clients": 0.2, "kind": "noise", "scale": 10.0},
}
DEFENCES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # options of the protocol, and of screening
    "none": ({}, {"too_large": 1e9, "strikes": 0}),
    "length": ({}, {}),
    "length, cosine": ({}, {"least_cosine": -0.2, "strikes": 0}),
    "length, cosine, strikes": ({}, {"least_cosine": -0.2}),
    **{
        kind: ({"combine": kind}, {})
        for kind in ("median", "trimmed_mean", "geometric_median", "centered_clipping", "krum")
    },
}
LEVELS = (-0.8, -0.4, -0.2, 0.0)  # of a cosine


def outcomes(
    problem: str,
    algorithm: dict[str, Any],
    attack: dict[str, Any] | None = None,
    horizon: float = HORIZON,
    **screening_options: Any,
) -> list[Result]:
    """An algorithm on every seed."""
    tables = {
        "seeds": SEEDS,
        "horizon": horizon,
        "problem": PROBLEMS[problem],
        "training": TRAINING,
        "evaluation": {"points": 1},
        "algorithms": [algorithm],
        "screening": screening_options,
    }
    tables |= {} if attack is None else {"attack": attack}
    with Workers() as workers:
        return list(run_cells(parse_recipe(tables), Services(workers)))


def honest(*names: str) -> None:
    """The longest honest updates in units of what is typical, and their cosines to the mean of the others."""
    ratios: list[float] = []
    cosines: list[float] = []
    screen, agreement = screening.screen, directions.agreement

    def measured(watch: Any, upload: Any, long: Any, client: Any, params: Any, rule: Any, **more: Any) -> Any:
        jax.debug.callback(lambda ratio: ratios.append(float(ratio)), long / screening.typical(watch, params))
        return screen(watch, upload, long, client, params, rule, **more)

    def compared(voices: Any, counts: Any, mine: Any) -> Any:
        found = agreement(voices, counts, mine)
        jax.debug.callback(lambda told, cosine: cosines.extend([float(cosine)] * bool(told)), counts.sum() >= 5, found)
        return found

    vars(screening).update(screen=measured, agreement=compared)
    print(f"| algorithm | problem | updates | longest | cosine: least | {' | '.join(f'below {x}' for x in LEVELS)} |")
    for name in names or [n for n in catalog.ALGORITHMS if not isinstance(catalog.protocol_of(n, {}), Peer)]:
        for problem in PROBLEMS:
            ratios.clear()
            cosines.clear()
            try:
                rule: dict[str, Any] = {"too_large": 1e9, "least_cosine": -1 + 1e-6, "strikes": 0}
                outcomes(problem, {"name": name}, horizon=HONEST_HORIZON, **rule)
            except (UserMistake, Diverged) as reason:
                print(f"| {name} | {problem} | {str(reason)[:90]} |", flush=True)
                continue
            jax.effects_barrier()  # type: ignore[no-untyped-call]
            found, away = np.array(ratios), np.array(cosines)
            found = found[np.isfinite(found)]
            below = " | ".join(f"{(away < level).mean():.1%}" for level in LEVELS)
            row = f"{len(found)} | {found.max(initial=0):.3g} | {away.min(initial=1):.2f} | {below}"
            print(f"| {name} | {problem} | {row} |", flush=True)


def table(problem: str, *attacks: str) -> None:
    """Mean accuracy of the shared model over seeds, and which share of the honest updates was refused."""
    print(f"| attack | {' | '.join(DEFENCES)} |", flush=True)
    for attack, lie in [(name, ATTACKS[name]) for name in attacks or ATTACKS]:
        liars = attackers(Attack(**lie), CLIENTS) if lie else frozenset[int]()
        row = [_cell(problem, protocol, rule, lie, liars) for protocol, rule in DEFENCES.values()]
        print(f"| {attack} | {' | '.join(row)} |", flush=True)


def _cell(
    problem: str, protocol: dict[str, Any], rule: dict[str, Any], lie: dict[str, Any] | None, liars: frozenset[int]
) -> str:
    found = outcomes(problem, {"name": "fedavg", "protocol": protocol}, lie, **rule)
    scores = [one.points[-1].scores["participating"]["0"].mean for one in found]
    tables = [one.table for one in found if isinstance(one.table, Timeline)]
    sent = sum(int((~np.isin(table.client[table.delivered], list(liars))).sum()) for table in tables)
    lost = sum(sum(why.values()) for one in found for client, why in one.record.refusals.items() if client not in liars)
    ended = sum(bool(one.record.ended) for one in found)
    remark = f" ({lost / sent:.0%} of honest refused)" if lost else ""
    return f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f}{remark}" + (f" ({ended} ended)" if ended else "")


if __name__ == "__main__":
    _, command, *names = sys.argv
    (honest if command == "honest" else table)(*names)
