"""The pictures of models with few values: weights around their levels, levels over time, accuracy against bytes."""

import numpy as np
import plotly.graph_objects as go

from idiolect.experiments.records import CellRecord
from idiolect.report.choices import one_at_a_time
from idiolect.report.page import Picture
from idiolect.report.report_data import PageCell, ReportData
from idiolect.report.style import BLUE, MUTED, labelled, style

_AROUND = (
    "The weights of one layer on one client at the start, in the middle and at the end of training, and its levels at "
    "the end as vertical lines. Training draws the weights to the levels and the levels to the weights."
)
_OVER_TIME = (
    "The levels of that layer, each a line, while they are learned: they spread from where they began until no weight "
    "pulls at them any more."
)
_AGAINST_BYTES = (
    "Mean over participating clients and seeds of what each client would ship: its score against the bytes of its "
    "packed model. Bars: standard deviation over seeds. Up and to the left is better: more for fewer bytes."
)


def level_pictures(data: ReportData) -> list[Picture]:
    """The pictures of every algorithm whose clients have levels; none if no algorithm's do."""
    shown = [(label, cell) for label in data.labels if (cell := _first_with_levels(data.of(label))) is not None]
    return [_around_levels(shown), _levels_over_time(data, shown), _against_bytes(data)] if shown else []


def _first_with_levels(cells: list[PageCell]) -> CellRecord | None:
    return next((cell.record for cell in cells if cell.record.points[0].layers), None)


def _largest_layer(cell: CellRecord) -> str:
    layers = cell.points[0].layers
    return max(layers, key=lambda name: sum(layers[name].counts))


def _around_levels(shown: list[tuple[str, CellRecord]]) -> Picture:
    figure, owners = go.Figure(), []
    for label, cell in shown:
        points, layer = cell.points, _largest_layer(cell)
        for moment, point in enumerate((points[0], points[len(points) // 2], points[-1])):
            view = point.layers[layer]
            edges = np.linspace(view.low, view.high, len(view.counts) + 1)
            share = np.array(view.counts) / sum(view.counts)
            line = {"color": style(moment)["color"], "shape": "hvh"}
            middles = (edges[1:] + edges[:-1]) / 2
            figure.add_scatter(x=middles, y=share, name=f"{layer}, time {point.time:g}", mode="lines", line=line)
        levels = cell.end.layers[layer].levels
        sticks = [value for level in levels for value in (level, level, None)]
        heights = [value for _ in levels for value in (1e-4, 1, None)]
        dotted = {"color": MUTED, "dash": "dot", "width": 1}
        figure.add_scatter(x=sticks, y=heights, mode="lines", line=dotted, name="levels at the end")
        owners += [label] * 4
    figure.update_yaxes(type="log", range=[-4, 0.1], tickformat=".2~%")
    labelled(figure, "Weights around their levels", "weight", "share of the layer's weights")
    return Picture(figure, _AROUND, one_at_a_time(figure, owners))


def _levels_over_time(data: ReportData, shown: list[tuple[str, CellRecord]]) -> Picture:
    figure, owners = go.Figure(), []
    for label, cell in shown:
        layer, times = _largest_layer(cell), [point.time for point in cell.points]
        levels = np.array([point.layers[layer].levels for point in cell.points])
        for place in range(levels.shape[1]):
            name = {"name": layer, "legendgroup": label, "showlegend": place == 0}
            figure.add_scatter(x=times, y=levels[:, place], mode="lines+markers", line={"color": BLUE}, **name)
            owners.append(label)
    labelled(figure, f"Levels over {data.time}", data.time, "level")
    return Picture(figure, _OVER_TIME, one_at_a_time(figure, owners))


def _against_bytes(data: ReportData) -> Picture:
    figure = go.Figure()
    for number, label in enumerate(data.labels):
        seeds = [_mean_of_clients(cell) for cell in data.of(label, ended=False)]
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
    metric = data.metric
    labelled(figure, f"{metric.capitalize()} against bytes", "bytes of a client's model", metric)
    return Picture(figure, _AGAINST_BYTES)


def _mean_of_clients(cell: PageCell) -> tuple[float, float]:
    mine = cell.record.participating
    return float(np.mean([c.bytes for c in mine])), float(np.mean([c.scores[cell.after] for c in mine]))
