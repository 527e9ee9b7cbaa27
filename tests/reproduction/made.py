"""Runs made by hand: cells with the scores a test wants, as a run folder would have them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from idiolect.papers.trials import FinishedTrial, Trial, recipe_of

SEEDS = (0, 1, 2)
Scores = Callable[[str, int], Mapping[str, float]]  # (label, seed) -> column -> score


def made(trial: Trial, scores: Scores, scale: str = "desk", clients: int = 1, **extra) -> FinishedTrial:
    """A run of the trial in which every client and point of a cell has the scores that `scores` says."""
    recipe = recipe_of(trial, scale, SEEDS)
    cells = [cell(label, seed, scores(label, seed), clients) for label in recipe.labels for seed in SEEDS]
    return FinishedTrial(recipe, Path("nowhere"), cells, extra.get("references", []))


def cell(label: str, seed: int, columns: Mapping[str, float], clients: int = 1, ended: str = "", reports=({}, {})):
    points = [
        {
            "time": float(place),
            "updates": 10 * place,
            "participating": {column: {"mean": score} for column, score in columns.items()},
            "clients": {str(client): dict(columns) for client in range(clients)},
            "reports": report,
        }
        for place, report in enumerate(reports)
    ]
    people = [
        {"client": client, "group": "participating", "scores": dict(columns), "also": {"top-1 accuracy": dict(columns)}}
        for client in range(clients)
    ]
    return {
        "label": label,
        "seed": seed,
        "metric": "accuracy",
        "also": {"top-1 accuracy": True},
        "seconds": 2.0,
        "ended": ended,
        "points": points,
        "clients": people,
        "scenes": [],
    }


def noise(seed: int) -> float:
    """A little, and not the same on every seed."""
    return (0.001, -0.002, 0.0015)[seed]
