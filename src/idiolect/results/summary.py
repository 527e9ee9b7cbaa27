"""What a run came to: per algorithm, over seeds, the numbers at the end of the virtual time."""

import platform
from importlib.metadata import version
from typing import Any

import numpy as np

from idiolect.evaluation.scoring import spread
from idiolect.experiments.building import describe, headline_column
from idiolect.experiments.schema import Recipe
from idiolect.results.gains import gains_by_size

_AT_THE_END = ("distance_to_optimum", "consensus_gap", "smallest_y")
_REPORTED = ("idiolect", "jax", "numpy", "optax")


def summarize(recipe: Recipe, cells: list[dict[str, Any]], references: list[dict[str, Any]]) -> dict[str, Any]:
    """The contents of `summary.json`."""
    columns = {"global": str(recipe.evaluation.steps[0]), "personalized": headline_column(recipe), "own": "own"}
    algorithms = {}
    for label in recipe.labels:
        mine = [cell for cell in cells if cell["label"] == label]
        if mine:
            algorithms[label] = _algorithm(mine, columns)
    first = cells[0]
    groups = {name: _group(recipe, cells, members) for name, members in recipe.evaluation.groups.items()}
    return {
        "recipe": recipe.name,
        "metric": first["metric"],
        "higher_is_better": first["higher_is_better"],
        "what": describe(recipe),
        "virtual_time": recipe.horizon,
        "algorithms": algorithms,
        **({"groups": groups} if groups else {}),
        **({"gains_by_size": gains} if (gains := gains_by_size(recipe, cells)) else {}),
        **({"references": _references(recipe, references, first)} if references else {}),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _REPORTED}},
    }


def _algorithm(cells: list[dict[str, Any]], columns: dict[str, str]) -> dict[str, Any]:
    ends = [cell["points"][-1] for cell in cells]
    summary: dict[str, Any] = {"seeds": [cell["seed"] for cell in cells]}
    for group in ("participating", "unseen"):
        if group in ends[0]:
            summary[group] = {
                name: _over_seeds([end[group][column] for end in ends]) for name, column in columns.items()
            }
    for metric, higher in cells[0]["also"].items():
        summary.setdefault("also", {})[metric] = {
            name: _over_seeds([_of_clients(cell, metric, column, higher) for cell in cells])
            for name, column in columns.items()
        }
    for name in ("bits", "bytes"):
        summary[name] = _mean_std([_over_participating(cell, name) for cell in cells])
    summary["updates"] = _mean_std([end["updates"] for end in ends])
    summary["wall_clock_seconds"] = _mean_std([cell["seconds"] for cell in cells])
    for name in ("residual", "capped"):
        values = [p["reports"][name] for cell in cells for p in cell["points"] if name in p["reports"]]
        if values:
            summary[name] = float(np.mean(values))
    for name in _AT_THE_END:
        if name in ends[0]["reports"]:
            summary[name] = _mean_std([end["reports"][name] for end in ends])
    if "y_leaked" in ends[0]["reports"]:
        summary["leaked_share"] = _mean_std([_leaked_share(end["reports"]) for end in ends])
    refusals = {str(cell["seed"]): cell["refusals"] for cell in cells if "refusals" in cell}
    if refusals:
        summary["refusals"] = refusals
    ended = {str(cell["seed"]): cell["ended"] for cell in cells if cell["ended"]}
    return {**summary, "ended": ended} if ended else summary


def _group(recipe: Recipe, cells: list[dict[str, Any]], members: list[int]) -> dict[str, Any]:
    """The headline scores of some clients, and how much more they are than with the recipe's first algorithm.

    Differences are taken seed by seed, so that their spread is not that of the seeds themselves.
    """
    column = headline_column(recipe)
    means = {
        (cell["label"], cell["seed"]): float(np.mean([c["scores"][column] for c in mine]))
        for cell in cells
        if (mine := [client for client in cell["clients"] if client["client"] in members])
    }
    group, first = {}, recipe.labels[0]
    for label in recipe.labels:
        seeds = [seed for seed in recipe.seeds if (label, seed) in means]
        both = [seed for seed in seeds if (first, seed) in means]
        if both:
            gains = [means[label, seed] - means[first, seed] for seed in both]
            group[label] = {**_mean_std([means[label, seed] for seed in seeds]), "gain": _mean_std(gains)}
    return {"clients": members, "algorithms": group}


def _of_clients(cell: dict[str, Any], metric: str, column: str, higher_is_better: bool) -> dict[str, float]:
    """A further metric over the participating clients at the end."""
    mine = [client for client in cell["clients"] if client["group"] == "participating"]
    return spread([client["also"][metric][column] for client in mine], higher_is_better)._asdict()


def _references(recipe: Recipe, records: list[dict[str, Any]], cell: dict[str, Any]) -> dict[str, Any]:
    """Every reference's scores over participating clients and seeds, by metric."""
    metrics = {cell["metric"]: cell["higher_is_better"], **cell["also"]}
    return {
        name: {
            metric: _over_seeds(
                [spread(list(r["scores"][metric].values()), higher)._asdict() for r in records if r["name"] == name]
            )
            for metric, higher in metrics.items()
        }
        for name in recipe.evaluation.references
    }


def _over_participating(cell: dict[str, Any], name: str) -> float:
    return float(np.mean([client[name] for client in cell["clients"] if client["group"] == "participating"]))


def _leaked_share(reports: dict[str, float]) -> float:
    """The share of the weight y that no agent has, or will ever get."""
    found = reports["y_with_agents"] + reports["y_under_way"] + reports["y_recoverable"]
    return reports["y_leaked"] / (found + reports["y_leaked"])


def _over_seeds(spreads: list[dict[str, float]]) -> dict[str, Any]:
    return {
        **_mean_std([spread["mean"] for spread in spreads]),
        "std_over_clients": float(np.mean([spread["std"] for spread in spreads])),
        "worst_decile": _mean_std([spread["worst_decile"] for spread in spreads]),
        "clients": spreads[0]["clients"],
    }


def _mean_std(values: list[float]) -> dict[str, float]:
    # The sample standard deviation over seeds; with one seed there is none to speak of.
    return {"mean": float(np.mean(values)), "std": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0}
