"""The pictures of models with few values: weights around their levels, levels over time, accuracy against bytes."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from idiolect.building import headline_column
from idiolect.recipes import Recipe
from idiolect.report.peer_pictures import Cells, Pictures
from idiolect.report.style import labelled, style

_AROUND = (
    "The weights of one layer on one client at the start, in the middle and at the end of training, and its levels at "
    "the end as vertical lines. Training draws the weights to the levels and the levels to the weights."
)
_OVER_TIME = "The levels of that layer, each a line, while they are learned."
_AGAINST_BYTES = (
    "Mean over participating clients and seeds of what each client would ship: its score against the bytes of its "
    "packed model. Bars: standard deviation over seeds."
)


def level_pictures(recipe: Recipe, cells: Cells) -> Pictures:
    """The pictures of every algorithm whose clients have levels; none if no algorithm's do."""
    shown = [(label, cell) for label in recipe.labels if (cell := _first_with_levels(label, cells)) is not None]
    if not shown:
        return []
    pictures = [(_around_levels(shown), _AROUND), (_levels_over_time(shown), _OVER_TIME)]
    return [*pictures, (_against_bytes(recipe, cells), _AGAINST_BYTES)]


def _first_with_levels(label: str, cells: Cells) -> dict[str, Any] | None:
    return next((cell for cell in cells if cell["label"] == label and cell["points"][0].get("layers")), None)


def _largest_layer(cell: dict[str, Any]) -> str:
    layers = cell["points"][0]["layers"]
    return max(layers, key=lambda name: sum(layers[name]["counts"]))


def _around_levels(shown: list[tuple[str, dict[str, Any]]]) -> go.Figure:
    figure, owners = go.Figure(), []
    for label, cell in shown:
        points, layer = cell["points"], _largest_layer(cell)
        for moment, point in enumerate((points[0], points[len(points) // 2], points[-1])):
            view = point["layers"][layer]
            edges = np.linspace(view["low"], view["high"], len(view["counts"]) + 1)
            share = np.array(view["counts"]) / sum(view["counts"])
            line = {"color": style(moment)["color"], "shape": "hvh"}
            middles = (edges[1:] + edges[:-1]) / 2
            figure.add_scatter(x=middles, y=share, name=f"{layer}, time {point['time']:g}", mode="lines", line=line)
        levels = points[-1]["layers"][layer]["levels"]
        sticks = [value for level in levels for value in (level, level, None)]
        heights = [value for _ in levels for value in (1e-4, 1, None)]
        dotted = {"color": "#666", "dash": "dot", "width": 1}
        figure.add_scatter(x=sticks, y=heights, mode="lines", line=dotted, name="levels at the end")
        owners += [label] * 4
    figure.update_yaxes(type="log", range=[-4, 0.1], tickformat=".2~%")
    choose_algorithm(figure, owners)
    return labelled(figure, "Weights around their levels", "weight", "share of the layer's weights")


def _levels_over_time(shown: list[tuple[str, dict[str, Any]]]) -> go.Figure:
    figure, owners = go.Figure(), []
    for label, cell in shown:
        layer, times = _largest_layer(cell), [point["time"] for point in cell["points"]]
        levels = np.array([point["layers"][layer]["levels"] for point in cell["points"]])
        for place in range(levels.shape[1]):
            line = {"color": style(0)["color"]}
            figure.add_scatter(
                x=times, y=levels[:, place], name=layer, showlegend=place == 0, mode="lines+markers", line=line
            )
            owners.append(label)
    choose_algorithm(figure, owners)
    return labelled(figure, "Levels over time", "virtual time", "level")


def choose_algorithm(figure: go.Figure, owners: list[str]) -> None:
    """A menu that shows the curves of one algorithm at a time; `owners` says whose each curve is."""
    buttons = [
        {"label": label, "method": "update", "args": [{"visible": [owner == label for owner in owners]}]}
        for label in dict.fromkeys(owners)
    ]
    for trace, owner in zip(figure.data, owners, strict=True):
        trace.visible = owner == owners[0]
    menu = {"buttons": buttons, "x": 0.35, "xanchor": "left", "y": 1.03, "yanchor": "bottom"}
    figure.update_layout(updatemenus=[menu])


def _against_bytes(recipe: Recipe, cells: Cells) -> go.Figure:
    figure, column = go.Figure(), headline_column(recipe)
    for number, label in enumerate(recipe.labels):
        seeds = [_mean_of_clients(cell, column) for cell in cells if cell["label"] == label and not cell["ended"]]
        if not seeds:
            continue
        size, score = np.mean(seeds, axis=0)
        spread = np.std(seeds, axis=0, ddof=1)[1] if len(seeds) > 1 else 0.0
        figure.add_scatter(
            x=[size],
            y=[score],
            error_y={"array": [spread]},
            name=label,
            mode="markers",
            marker={"size": 10, "color": style(number)["color"], "symbol": number % 8},
        )
    figure.update_xaxes(type="log")
    metric = cells[0]["metric"]
    return labelled(figure, f"{metric.capitalize()} against bytes", "bytes of a client's model", metric)


def _mean_of_clients(cell: dict[str, Any], column: str) -> tuple[float, float]:
    mine = [client for client in cell["clients"] if client["group"] == "participating"]
    return float(np.mean([c["bytes"] for c in mine])), float(np.mean([c["scores"][column] for c in mine]))
