"""How well models do while they are learned: against time, against updates and against seconds of work."""

from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from idiolect.experiments.records import DISTANCE, CellRecord
from idiolect.report.choices import Choice
from idiolect.report.headline import number
from idiolect.report.page import Picture
from idiolect.report.report_data import ReportData
from idiolect.report.style import MUTED, labelled, log_scale, style

_AXES: dict[str, Callable[[CellRecord], Sequence[float]]] = {
    "time": lambda cell: [point.time for point in cell.points],
    "updates": lambda cell: [point.updates for point in cell.points],
    "seconds of work": lambda cell: cell.stopwatch,
}


def over_time(data: ReportData) -> list[Picture]:
    """The headline metric of every algorithm; and its distance to the minimiser, where that is known."""
    return [_scores(data), *_distance(data)]


def report_curves(data: ReportData, report: str, title: str, y: str) -> go.Figure:
    """One of the numbers that algorithms report at every point, as means over seeds."""
    figure, tame = go.Figure(), list[float]()
    for place, label in enumerate(data.labels):
        curves = [
            {point.time: point.reports[report] for point in cell.record.points if report in point.reports}
            for cell in data.of(label)
        ]
        curves = [curve for curve in curves if curve]
        if curves:
            times = sorted(set.intersection(*map(set, curves)))
            middle = [float(np.mean([curve[time] for curve in curves])) for time in times]
            figure.add_scatter(x=times, y=middle, name=label, line=style(place), mode="lines")
            tame += [] if any(cell.record.ended for cell in data.of(label)) else middle
    log_scale(figure, tame)
    return labelled(figure, title, data.time, y)


def _scores(data: ReportData) -> Picture:
    figure, metric = go.Figure(), data.metric
    axes = [name for name in _AXES if _can_be_drawn(data, name)]
    places: dict[str, list[list[float]]] = {name: [] for name in axes}
    for place, label in enumerate(data.labels):
        cells = data.of(label)
        if cells:
            shortest = min(len(cell.record.points) for cell in cells)  # a run may have ended before its time
            with_band(figure, label, place, np.array([cell.curve[:shortest] for cell in cells]))
            for name in axes:
                x = np.mean([_AXES[name](cell.record)[:shortest] for cell in cells], axis=0).tolist()
                places[name] += [[*x, *x[::-1]], x]  # the band goes there and back
    for trace, x in zip(figure.data, places["time"], strict=True):
        trace.x = x
    if not data.higher_is_better:  # errors are told apart by their size
        log_scale(figure, [v for cell in data.cells if not cell.record.ended for v in cell.curve])
    for name in dict.fromkeys(record.name for record in data.references):
        scores = [list(record.scores[metric].values()) for record in data.references if record.name == name]
        figure.add_hline(float(np.mean(scores)), line={"color": MUTED, "dash": "dot"}, annotation_text=name)
    labelled(figure, f"Personalized {metric} over {data.time}", data.time, metric)
    words = {**{name: name for name in axes}, "time": data.time}
    choices = [
        Choice(words[name], {"x": places[name]}, {"xaxis.title.text": words[name], "xaxis.autorange": True})
        for name in axes
    ]
    return Picture(figure, _caption(data, axes), choices)


def _can_be_drawn(data: ReportData, axis: str) -> bool:
    """Not every cell has a stopwatch, and by a real clock time is seconds anyway."""
    if axis != "seconds of work":
        return True
    noted = all(len(cell.record.stopwatch) == len(cell.record.points) for cell in data.cells)
    return noted and not any(run.real for run in data.runs)


def with_band(figure: go.Figure, label: str, place: int, curves: np.ndarray) -> None:
    """Draw the mean of some seeds and, before it, a band that goes there and back; where they are comes later."""
    middle = curves.mean(0)
    width = curves.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(middle))
    low = np.maximum(middle - width, curves.min(0))  # a band below all curves would not show on a log scale
    line = style(place)
    figure.add_scatter(
        y=[*(middle + width), *low[::-1]],
        fill="toself",
        mode="lines",
        opacity=0.15,
        line_width=0,
        fillcolor=line["color"],
        legendgroup=label,
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_scatter(y=middle, name=label, legendgroup=label, line=line, mode="lines")


def _caption(data: ReportData, axes: list[str]) -> str:
    what = "; ".join(dict.fromkeys(run.summary.what.personalized for run in data.runs))
    said = [
        f"{_order_at_the_end(data)}.",
        f"Mean over participating clients, {what}; line and band: mean and standard deviation over {data.seeds}.",
        "Dotted: what the problem knows to compare with, learned by none." if data.references else "",
        "Against updates and seconds, each evaluation stands at its mean over seeds." if len(axes) > 1 else "",
        "Seconds of work are the wall clock's, scoring included." if "seconds of work" in axes else "",
    ]
    return " ".join(sentence for sentence in said if sentence)


def _order_at_the_end(data: ReportData) -> str:
    complete = {label: cells for label in data.labels if (cells := data.of(label, ended=False))}
    ends = {label: float(np.mean([cell.curve[-1] for cell in cells])) for label, cells in complete.items()}
    order = sorted(ends, key=lambda label: ends[label], reverse=data.higher_is_better)
    if not order:
        return "No run reached its end"
    last = f", {order[-1]} last ({number(ends[order[-1]])})" if len(order) > 1 else ""
    return f"At the end {order[0]} is first ({number(ends[order[0]])}){last}"


def _distance(data: ReportData) -> list[Picture]:
    if not any(DISTANCE in cell.record.end.reports for cell in data.cells):
        return []
    y = "squared distance to the minimiser"
    figure = report_curves(data, DISTANCE, f"Squared distance to the minimiser over {data.time}", y)
    caption = (
        "Mean over clients of the squared distance to the minimiser of what each algorithm minimises: a straight fall "
        "on this scale is a constant rate, a floor is the noise of the steps."
    )
    return [Picture(figure, caption)]
