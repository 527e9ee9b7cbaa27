"""Who gains most: clients with few samples against clients with many."""

from typing import Any

import numpy as np

from idiolect.experiments.building import headline_column
from idiolect.experiments.schema import Recipe


def gains_by_size(recipe: Recipe, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Every algorithm's headline score minus the first one's, for the third of the clients with the fewest samples.

    And for the third with the most. Differences are taken client by client, and their mean over clients seed by seed.
    Empty where there is nothing to compare, or clients are all of one size.
    """
    first, column = recipe.labels[0], headline_column(recipe)
    scores = {(cell["label"], cell["seed"]): _scores(cell, column) for cell in cells}
    sizes = {cell["seed"]: _sizes(cell) for cell in cells if cell["label"] == first}
    thirds = {seed: ends for seed, mine in sizes.items() if (ends := _thirds(mine)) is not None}
    found: dict[str, Any] = {}
    for label in recipe.labels[1:]:
        seeds = [seed for seed in thirds if (label, seed) in scores]
        if seeds:
            gains = np.array([_gains(scores[label, seed], scores[first, seed], thirds[seed]) for seed in seeds])
            spread = gains.std(0, ddof=1) if len(seeds) > 1 else np.zeros(2)
            found[label] = {
                name: {"mean": float(gains[:, place].mean()), "std": float(spread[place])}
                for place, name in enumerate(("few", "many"))
            }
    return {"over": first, "algorithms": found} if found else {}


def _scores(cell: dict[str, Any], column: str) -> dict[int, float]:
    return {c["client"]: c["scores"][column] for c in cell["clients"] if c["group"] == "participating"}


def _sizes(cell: dict[str, Any]) -> dict[int, int]:
    return {c["client"]: c["samples"] for c in cell["clients"] if c["group"] == "participating"}


def _thirds(sizes: dict[int, int]) -> tuple[list[int], list[int]] | None:
    """The clients with the fewest and with the most samples, if that can be told."""
    ordered = sorted(sizes, key=lambda client: sizes[client])
    few, many = ordered[: len(ordered) // 3], ordered[len(ordered) - len(ordered) // 3 :]
    return (few, many) if few and sizes[few[-1]] < sizes[many[0]] else None


def _gains(mine: dict[int, float], first: dict[int, float], thirds: tuple[list[int], list[int]]) -> list[float]:
    return [float(np.mean([mine[client] - first[client] for client in part])) for part in thirds]
