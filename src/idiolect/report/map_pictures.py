"""Maps of what policies do, at the start and at the end of training: MEMRL, Fig. 1."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from idiolect.contracts import Scene
from idiolect.report.choices import one_at_a_time
from idiolect.report.page import Picture
from idiolect.report.report_data import ReportData
from idiolect.report.style import GREY, INK, ORANGE, labelled, style

_MAP = (
    "Episodes of the first seed on a map: triangles are starts, the star is the client's goal, which its policy does "
    "not see. Above, before training; below, at the end. Grey: the policy as received, which cannot "
    "know where to go; coloured: adapted to the client, whose ways should end at its star."
)
_ASIDE = 0.06  # how far paths that share a way are drawn from each other, as a share of the map


def map_pictures(data: ReportData) -> list[Picture]:
    """A map per client and moment, for one algorithm at a time; none if the problem has no scenes."""
    shown = {cell.label: cell.record for cell in reversed(data.cells) if cell.record.scenes and not cell.record.ended}
    shown = {label: shown[label] for label in data.labels if label in shown}
    if not shown:
        return []
    scenes = next(iter(shown.values())).scenes
    clients = list(scenes[0].received)
    titles = [f"client {client}, time {moment.time:g}" for moment in scenes for client in clients]
    spacing = {"horizontal_spacing": 0.02, "vertical_spacing": 0.08}
    figure = make_subplots(rows=2, cols=len(clients), subplot_titles=titles, **spacing)
    owners: list[str] = []
    for label, cell in shown.items():
        for row, moment in enumerate(cell.scenes, start=1):
            for column, client in enumerate(clients, start=1):
                traces = _map(moment.received[client], moment.adapted[client], column - 1)
                figure.add_traces(traces, rows=row, cols=column)
                owners += [label] * len(traces)
    figure.update_xaxes(showticklabels=False, zeroline=False, matches="x")
    figure.update_yaxes(showticklabels=False, zeroline=False, matches="y")
    figure.update_layout(xaxis_matches=None, yaxis={"matches": None, "scaleanchor": "x"})
    labelled(figure, "Where policies go", "", "").update_layout(height=680, showlegend=False, margin_t=40)
    return [Picture(figure, _MAP, one_at_a_time(figure, owners))]


def _map(received: Scene, adapted: Scene, number: int) -> list[go.Scatter]:
    """The episodes of one client at one moment."""
    goal, paths = np.asarray(adapted.goal), np.asarray(adapted.paths, float)
    begins = paths[:, 0]
    star = {"symbol": "star", "size": 16, "color": ORANGE, "line": {"color": INK, "width": 1}}
    triangles = {"symbol": "triangle-up", "size": 8, "color": INK}
    return [
        _paths(np.asarray(received.paths, float), GREY, "as received", 0.35),
        _paths(paths, style(number)["color"], "adapted", 0.9),
        go.Scatter(x=begins[:, 0], y=begins[:, 1], mode="markers", marker=triangles, name="start"),
        go.Scatter(x=[goal[0]], y=[goal[1]], mode="markers", marker=star, name="goal"),
    ]


def _paths(places: np.ndarray, colour: str, name: str, opacity: float) -> go.Scatter:
    """All paths as one broken line, each a little aside so that none hides another."""
    reach = np.ptp(places.reshape(-1, 2), axis=0).max() or 1.0
    aside = np.linspace(-_ASIDE, _ASIDE, len(places))[:, None, None] * reach
    broken = np.concatenate([places + aside, np.full((len(places), 1, 2), np.nan)], axis=1).reshape(-1, 2)
    line = {"color": colour, "width": 1.5}
    return go.Scatter(x=broken[:, 0], y=broken[:, 1], mode="lines", line=line, opacity=opacity, name=name)
