"""The pictures of a run without a server: agreement, where the mass is, and the graph with its losses."""

import numpy as np
import plotly.graph_objects as go

from idiolect.network.round_tables import Rounds, delivered_share
from idiolect.report.choices import one_at_a_time
from idiolect.report.over_time import report_curves
from idiolect.report.page import Picture
from idiolect.report.report_data import PageCell, ReportData
from idiolect.report.style import BLUE, MUTED, ORANGE, SKY, VERMILION, labelled

MASS = {
    "y_with_agents": ("with agents", BLUE),
    "y_under_way": ("under way", SKY),
    "y_recoverable": ("lost, but recoverable", ORANGE),
    "y_leaked": ("leaked", VERMILION),
}
_GAP = (
    "How far agents are from their average: the root mean square distance, mean over {seeds}. It should fall and stay "
    "down: a gap that grows is a network that no longer agrees."
)
_LEDGER = (
    "First seed, one for each protocol: the weights y add up to the number of agents, wherever they are. What has "
    "leaked (vermilion) cannot come back, and the average of the models with it; running sums leak nothing."
)
_GRAPH = (
    "Who sends to whom (first seed). The thicker and redder a link, the more of what is sent over it never arrives; "
    "point at its middle for numbers."
)
_LINKS = 600  # beyond that arrows are a blot


def peer_pictures(data: ReportData) -> list[Picture]:
    """What only runs without a server have to show; nothing if there are none."""
    tables = {label: table for label, table in data.tables.items() if isinstance(table, Rounds)}
    mine = [cell for cell in data.cells if cell.label in tables]
    if not mine:
        return []
    title = f"Consensus gap over {data.time}"
    gap = report_curves(data, "consensus_gap", title, "distance from the average")
    graph = Picture(_graph(next(iter(tables.values()))), _GRAPH)
    return [Picture(gap, _GAP.format(seeds=data.seeds)), *_ledger(data, mine), graph]


def _ledger(data: ReportData, cells: list[PageCell]) -> list[Picture]:
    """Where the mass is, for one protocol at a time."""
    figure, owners = go.Figure(), list[str]()
    for label in _with_ledgers_of_their_own(cells):
        points = next(cell.record.points for cell in cells if cell.label == label)
        times = [point.time for point in points]
        for name, (words, colour) in MASS.items():
            values = [point.reports[name] for point in points]
            line = {"color": colour, "width": 1}
            figure.add_scatter(
                x=times, y=values, name=words, mode="lines", line=line, fillcolor=colour, stackgroup=label
            )
            owners.append(label)
    if not owners:
        return []
    labelled(figure, "Where the mass is", data.time, "weight y")
    return [Picture(figure, _LEDGER, one_at_a_time(figure, owners))]


def _with_ledgers_of_their_own(cells: list[PageCell]) -> list[str]:
    """The algorithms whose mass moves, one for each way it does: weights do not depend on what is minimised."""
    found: dict[str, str] = {}
    for cell in cells:
        ledger = [[round(point.reports[name], 9) for name in MASS] for point in cell.record.points]
        if cell.record.seed == cells[0].record.seed and any(any(row[1:]) for row in ledger):
            found.setdefault(str(ledger), cell.label)
    return list(found.values())


def _graph(table: Rounds) -> go.Figure:
    graph, lost = table.graph, 1 - delivered_share(table)
    angle = 2 * np.pi * np.arange(graph.agents) / graph.agents
    places = np.stack([np.cos(angle), np.sin(angle)])
    figure, shown = go.Figure(), min(graph.links, _LINKS)
    worst = float(lost[:shown].max(initial=0)) or 1.0
    for link in range(shown):
        begin, end = places[:, graph.sources[link]], places[:, graph.targets[link]]
        tip = end - 0.075 * (end - begin) / np.linalg.norm(end - begin)  # at the rim of the receiver's dot
        share = lost[link] / worst
        figure.add_annotation(
            x=tip[0], y=tip[1], ax=begin[0], ay=begin[1], xref="x", yref="y", axref="x", ayref="y", showarrow=True,
            arrowhead=2, arrowwidth=1 + 1.5 * share, arrowcolor=VERMILION if lost[link] else MUTED,
            opacity=0.3 + 0.7 * share,
        )  # fmt: skip
    middle = 0.6 * places[:, graph.targets[:shown]] + 0.4 * places[:, graph.sources[:shown]]
    words = [f"{graph.sources[k]} to {graph.targets[k]}: {lost[k]:.0%} lost" for k in range(shown)]
    figure.add_scatter(
        x=middle[0], y=middle[1], mode="markers", marker_opacity=0, hovertext=words, hoverinfo="text", showlegend=False
    )
    figure.add_scatter(
        x=places[0], y=places[1], mode="markers+text", text=[str(agent) for agent in range(graph.agents)],
        marker={"size": 22, "color": BLUE}, textfont={"color": "white", "size": 11}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    figure.update_xaxes(visible=False, range=[-1.15, 1.15])
    figure.update_yaxes(visible=False, range=[-1.15, 1.15], scaleanchor="x")
    return labelled(figure, "The graph, and what its links lose", "", "").update_layout(height=520)
