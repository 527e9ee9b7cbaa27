"""How clients fare: the spread over all of them, after more and more steps, and each of a few over time."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from idiolect.report.page import Picture
from idiolect.report.report_data import PageCell, ReportData
from idiolect.report.style import MUTED, labelled, style

FEW = 6  # with more clients than this a picture for each would say less than the spread over them
_DOTS = 3000
_CLEAR = "rgba(0,0,0,0)"  # so that the box hides no dot
_SPREAD = (
    "Every dot is a participating client at the end of the run, personalized, all seeds; the box spans the middle half "
    "and the line in it is the median. A long tail on the bad side is what a mean hides."
)
_STEPS = (
    "The last model after more and more personal steps; mean over participating clients and seeds. A line that turns "
    "back is a client's small adaptation part being learned by heart."
)
_EACH = (
    "Every panel is a client; solid: its personalized model, dotted: the model as received; mean over seeds. The gap "
    "between them is what personalization gives. The level line is what the problem knows to compare with, where the "
    "recipe asks for it."
)


def spread_pictures(data: ReportData) -> list[Picture]:
    """The scores of all clients, and what more steps make of them if there are enough to make a curve."""
    return [_spread(data), *_over_steps(data)]


def each_client(data: ReportData) -> list[Picture]:
    """A panel for each participating client, if there are only a few."""
    clients = sorted({client.client for cell in data.cells for client in cell.record.participating})
    if len(clients) > FEW:
        return []
    metric, wide = data.metric, min(3, len(clients))
    titles = [f"client {client}" for client in clients]
    rows = -(-len(clients) // wide)
    spacing = {"horizontal_spacing": 0.03, "vertical_spacing": 0.16 / rows}
    figure = make_subplots(rows=rows, cols=wide, shared_xaxes=True, shared_yaxes=True, subplot_titles=titles, **spacing)
    for number, label in enumerate(data.labels):
        mine = data.of(label, ended=False)
        for place, client in enumerate(clients if mine else []):
            _add_curves(figure, mine, client, number, place, wide)
    for place, client in enumerate(clients):
        known = [r.scores[metric][client] for r in data.references if client in r.scores[metric]]
        if known:
            where = {"row": place // wide + 1, "col": place % wide + 1}
            figure.add_hline(float(np.mean(known)), line={"color": MUTED, "width": 1}, **where)
    labelled(figure, f"{metric.capitalize()} of each client over {data.time}", "", metric)
    figure.update_xaxes(title=data.time, row=rows, col=(wide + 1) // 2).update_layout(height=180 + 230 * rows)
    return [Picture(figure, _EACH)]


def _add_curves(figure: go.Figure, cells: list[PageCell], client: int, number: int, place: int, wide: int) -> None:
    times = [point.time for point in cells[0].record.points]
    label, colour = cells[0].label, style(number)["color"]
    for column, dash in ((cells[0].after, "solid"), (cells[0].before, "dot")):
        scores = [[p.clients.get(client, {}).get(column, np.nan) for p in cell.record.points] for cell in cells]
        figure.add_scatter(
            x=times,
            y=np.mean(scores, axis=0),
            name=label,
            legendgroup=label,
            showlegend=place == 0 and dash == "solid",
            mode="lines",
            line={"color": colour, "dash": dash},
            row=place // wide + 1,
            col=place % wide + 1,
        )


def _spread(data: ReportData) -> Picture:
    figure, metric = go.Figure(), data.metric
    for number, label in enumerate(data.labels):
        scores = sorted(
            client.scores[cell.after] for cell in data.of(label, ended=False) for client in cell.record.participating
        )
        most = _DOTS // len(data.labels)
        if len(scores) > most:  # evenly by their rank, which leaves the box where it is
            scores = [scores[k] for k in np.linspace(0, len(scores) - 1, most).round().astype(int)]
        marker = {"size": 4, "color": style(number)["color"], "opacity": 0.6}
        figure.add_box(
            y=scores,
            name=label,
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            marker=marker,
            fillcolor=_CLEAR,
            showlegend=False,
        )
    return Picture(labelled(figure, f"{metric.capitalize()} of every client", "", metric), _SPREAD)


def _over_steps(data: ReportData) -> list[Picture]:
    budgets = [tuple(run.experiment.evaluation.steps) for run in data.runs]
    if len(set(budgets)) > 1 or len(budgets[0]) < 3:
        return []
    steps, figure = list(budgets[0]), go.Figure()
    for number, label in enumerate(data.labels):
        ends = [cell.record.end.scores["participating"] for cell in data.of(label, ended=False)]
        if ends:
            middle = [float(np.mean([end[str(k)].mean for end in ends])) for k in steps]
            figure.add_scatter(x=steps, y=middle, name=label, line=style(number), mode="lines+markers")
    metric = data.metric
    title = f"{metric.capitalize()} after adaptation"
    return [Picture(labelled(figure, title, "gradient steps on the adaptation part", metric), _STEPS)]
