"""PARS-Push, Fig. 3: two agents, two personal steps, and the two points to start from.

Each agent has a quadratic cost in the plane. z* minimises their average, z*(2) the average after two gradient steps.
The figure's claim is what z*(2) is made for; what the numbers add is by how much.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from idiolect.objectives import maml, plain
from idiolect.papers.exhibit import Exhibit, Findings, Request, Scale
from idiolect.papers.verdicts import above
from idiolect.problems.synthetic import quadratics
from idiolect.problems.synthetic.quadratic_clients import curvatures_and_centres
from idiolect.report.page import Picture
from idiolect.report.style import INK, labelled, style

NAME, _STEPS, _ALPHA = "pars-push-fig-3", 2, 0.3


class Pair(NamedTuple):
    """Two agents, their paths from z* and from z*(2) as (agent, step, 2), and the average costs at their ends."""

    matrices: np.ndarray
    centres: np.ndarray
    plain: np.ndarray
    personal: np.ndarray
    costs: tuple[float, float]


def pair_of(seed: int) -> Pair:
    """Two agents whose costs are steep in different directions, without noise."""
    given = quadratics(
        clients=2, dimension=2, samples=5, convexity=0.2, smoothness=2.0, heterogeneity=1.0, noise=0.0, seed=seed
    )
    matrices, centres = curvatures_and_centres(given.clients)
    paths, costs = [], []
    for objective in (plain(), maml(steps=_STEPS, step_size=_ALPHA, batches="shared")):
        path = [np.repeat(np.asarray(given.optimum(objective, 1), float)[None], 2, 0)]
        for _ in range(_STEPS):
            path.append(path[-1] - _ALPHA * np.einsum("nij,nj->ni", matrices, path[-1] - centres))
        off = path[-1] - centres
        costs.append(float(0.5 * np.einsum("ni,nij,nj->n", off, matrices, off).mean()))
        paths.append(np.stack(path, 1))
    return Pair(matrices, centres, paths[0], paths[1], (costs[0], costs[1]))


def _perform(request: Request) -> Findings:
    pairs = [pair_of(seed) for seed in request.seeds]
    claim = above(
        "After two steps the average cost is lower from z*(2), which minimises (4), than from z*, which minimises (1)",
        [pair.costs[1] for pair in pairs],
        [pair.costs[0] for pair in pairs],
        request.seeds,
        paper="lower in the figure",
        lower=True,
    )
    return Findings([claim], [_picture(pairs, request.seeds)])


def _picture(pairs: Sequence[Pair], seeds: Sequence[int]) -> Picture:
    shares = [1 - pair.costs[1] / pair.costs[0] for pair in pairs]
    shown = int(np.argsort(shares)[len(shares) // 2])  # the one in the middle, and not the best
    pair, figure = pairs[shown], go.Figure()
    for agent in range(2):
        for height in (0.05, 0.2, 0.6):
            round_ = _level(pair.matrices[agent], pair.centres[agent], height)
            figure.add_scatter(
                x=round_[:, 0], y=round_[:, 1], line={**style(agent), "width": 1}, opacity=0.5, showlegend=False
            )
        for name, paths, symbol in (("z*", pair.plain, "circle"), ("z*(2)", pair.personal, "diamond")):
            figure.add_scatter(
                x=paths[agent, :, 0],
                y=paths[agent, :, 1],
                name=f"agent {agent + 1}, from {name}",
                line={**style(agent), "dash": "solid" if symbol == "diamond" else "dot"},
                marker={"symbol": symbol},
                mode="lines+markers",
            )
    for name, paths in (("z*", pair.plain), ("z*(2)", pair.personal)):
        start = paths[0, 0]
        figure.add_scatter(
            x=[start[0]],
            y=[start[1]],
            text=[name],
            mode="text",
            textposition="top center",
            showlegend=False,
            textfont={"color": INK},
        )
    figure.update_yaxes(scaleanchor="x")
    said = (
        f"The pair of seed {seeds[shown]}, the median of {len(pairs)} by its gain: {100 * shares[shown]:.0f} % of "
        "the average cost after two steps. Ellipses: levels of each agent's cost."
    )
    return Picture(labelled(figure, "Two agents, two steps of size 0.3", "first parameter", "second parameter"), said)


def _level(matrix: np.ndarray, centre: np.ndarray, height: float) -> np.ndarray:
    """Points where 1/2 (z - centre)' A (z - centre) has this value."""
    angles = np.linspace(0, 2 * np.pi, 61)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(centre + circle * np.sqrt(2 * height / values) @ vectors.T)


EXHIBIT = Exhibit(
    NAME,
    "PARS-Push, Fig. 3",
    "Two agents, two personal steps: which of two points is the better one to start from.",
    {
        "quick": Scale("two quadratics in the plane", (0, 1)),
        "desk": Scale("two quadratics in the plane", tuple(range(16))),
        "paper": Scale("two quadratics in the plane", tuple(range(64))),
    },
    _perform,
)
