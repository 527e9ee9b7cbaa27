"""The pictures of a run without a server: errors, agreement, where the mass is, and the graph with its losses."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from idiolect.network.rounds import Rounds, delivered_share
from idiolect.recipes import Recipe
from idiolect.report.style import labelled, log_scale, style

Cells = list[dict[str, Any]]
Pictures = list[tuple[go.Figure, str]]

_MASS = {
    "y_with_agents": ("with agents", "#0072B2"),
    "y_under_way": ("under way", "#56B4E9"),
    "y_recoverable": ("lost, but recoverable", "#E69F00"),
    "y_leaked": ("leaked", "#D55E00"),
}


def peer_pictures(recipe: Recipe, cells: Cells, tables: dict[str, Rounds]) -> Pictures:
    """What only runs without a server have to show; nothing if there are none."""
    mine = [cell for cell in cells if cell["label"] in tables]
    if not mine:
        return []
    seeds = len({cell["seed"] for cell in mine})
    spread = f"Mean over {seeds} seed{'s' if seeds > 1 else ''}."
    return [
        (
            _over_rounds(recipe, mine, "consensus_gap", "Consensus gap", "distance from the average"),
            f"How far agents are from their average: the root mean square distance. {spread}",
        ),
        *((_mass(label, mine), _MASS_CAPTION.format(label=label)) for label in _with_ledgers_of_their_own(mine)),
        (
            _graph(next(iter(tables.values()))),
            "Who sends to whom (first seed). The darker a link, the more of what is sent over it never arrives; "
            "point at its middle for numbers.",
        ),
    ]


def distance_picture(recipe: Recipe, cells: Cells) -> Pictures:
    """The distance to the minimiser, where it is known."""
    mine = [cell for cell in cells if "distance_to_optimum" in cell["points"][-1]["reports"]]
    if not mine:
        return []
    figure = _over_rounds(recipe, mine, "distance_to_optimum", "Error", "squared distance to the minimiser")
    return [(figure, "Mean over clients of the squared distance to the minimiser of what each algorithm minimises.")]


_MASS_CAPTION = (
    "{label}, and whatever else has its protocol, first seed: the weights y add up to the number of agents, wherever "
    "they are. What has leaked cannot come back, and the average of the models with it."
)


def _over_rounds(recipe: Recipe, cells: Cells, report: str, title: str, y: str) -> go.Figure:
    figure, tame = go.Figure(), list[float]()
    for number, label in enumerate(recipe.labels):
        curves = [
            {point["time"]: point["reports"][report] for point in cell["points"] if report in point["reports"]}
            for cell in cells
            if cell["label"] == label
        ]
        if curves:
            times = sorted(set.intersection(*map(set, curves)))
            middle = [float(np.mean([curve[time] for curve in curves])) for time in times]
            figure.add_scatter(x=times, y=middle, name=label, line=style(number), mode="lines")
            tame += [] if any(cell["ended"] for cell in cells if cell["label"] == label) else middle
    log_scale(figure, tame)
    return labelled(figure, f"{title} over virtual time", "virtual time", y)


def _with_ledgers_of_their_own(cells: Cells) -> list[str]:
    """The algorithms whose mass moves, one for each way it does: weights do not depend on what is minimised."""
    found: dict[str, str] = {}
    for cell in cells:
        ledger = [[round(point["reports"][name], 9) for name in _MASS] for point in cell["points"]]
        if cell["seed"] == cells[0]["seed"] and any(any(row[1:]) for row in ledger):
            found.setdefault(str(ledger), cell["label"])
    return list(found.values())


def _mass(label: str, cells: Cells) -> go.Figure:
    points, figure = next(cell["points"] for cell in cells if cell["label"] == label), go.Figure()
    times = [point["time"] for point in points]
    for name, (words, colour) in _MASS.items():
        values = [point["reports"][name] for point in points]
        figure.add_scatter(x=times, y=values, name=words, mode="lines", line_color=colour, stackgroup="mass")
    return labelled(figure, f"Where the mass is: {label}", "virtual time", "weight y")


def _graph(table: Rounds) -> go.Figure:
    graph, lost = table.graph, 1 - delivered_share(table)
    angle = 2 * np.pi * np.arange(graph.agents) / graph.agents
    x, y = np.cos(angle), np.sin(angle)
    figure = go.Figure()
    shown = min(graph.links, 600)  # beyond that arrows are a blot
    for link in range(shown):
        i, j = graph.sources[link], graph.targets[link]
        way = np.array([x[j] - x[i], y[j] - y[i]])
        tip = np.array([x[j], y[j]]) - 0.075 * way / np.linalg.norm(way)  # at the rim of the receiver's dot
        grey = int(200 * (1 - lost[link]))
        figure.add_annotation(
            x=tip[0], y=tip[1], ax=x[i], ay=y[i], xref="x", yref="y", axref="x", ayref="y",
            showarrow=True, arrowhead=2, arrowwidth=1.2, arrowcolor=f"rgb(213,{grey},{grey})" if lost[link] else "#999",
        )  # fmt: skip
    middle = 0.6 * np.stack([x, y])[:, graph.targets[:shown]] + 0.4 * np.stack([x, y])[:, graph.sources[:shown]]
    words = [f"{graph.sources[k]} to {graph.targets[k]}: {lost[k]:.0%} lost" for k in range(shown)]
    figure.add_scatter(
        x=middle[0], y=middle[1], mode="markers", marker_opacity=0, hovertext=words, hoverinfo="text", showlegend=False
    )
    figure.add_scatter(
        x=x, y=y, mode="markers+text", text=[str(agent) for agent in range(graph.agents)], showlegend=False,
        marker={"size": 22, "color": "#0072B2"}, textfont={"color": "white", "size": 11}, hoverinfo="skip",
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[-1.15, 1.15])
    figure.update_yaxes(visible=False, range=[-1.15, 1.15], scaleanchor="x")
    return labelled(figure, "The graph, and what its links lose", "", "").update_layout(height=520)
