"""Pictures that several exhibits draw: curves over virtual time, and bars in groups."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from idiolect.experiments.evaluation_plan import headline_column
from idiolect.papers.trials import FinishedTrial
from idiolect.report.over_time import with_band
from idiolect.report.style import INK, labelled, style

Bars = Mapping[str, Sequence[Sequence[float] | float | None]]
"""Series of bars: for every group the numbers of all seeds, one printed number, or None for no bar."""


def curves(ran: FinishedTrial, title: str) -> go.Figure:
    """The headline score of every algorithm over virtual time, with a band of a standard deviation over seeds."""
    figure, column = go.Figure(), headline_column(ran.experiment)
    for number, label in enumerate(ran.labels):
        cells = ran.of(label)
        shortest = min(len(cell.points) for cell in cells)  # a run may have ended before its time
        times = [point.time for point in cells[0].points[:shortest]]
        rows = [[point.scores["participating"][column].mean for point in cell.points[:shortest]] for cell in cells]
        with_band(figure, label, number, np.array(rows))
        figure.data[-2].x, figure.data[-1].x = [*times, *times[::-1]], times
    return labelled(figure, title, "virtual time", ran.cells[0].metric)


def bars(groups: Sequence[str], series: Bars, title: str, x: str, y: str) -> go.Figure:
    """Bars in groups, with the standard deviation over seeds where a bar has seeds; the paper's are hatched."""
    figure = go.Figure()
    for number, (name, values) in enumerate(series.items()):
        printed = name.startswith("paper")
        means = [None if value is None else float(np.mean(value)) for value in values]
        figure.add_bar(
            x=list(groups),
            y=means,
            name=name,
            marker={
                "color": style(number)["color"],
                "opacity": 0.45 if printed else 1.0,
                "pattern": {"shape": "/" if printed else ""},
            },
            error_y=None if printed else {"array": [_width(value) for value in values], "color": INK},
        )
    figure.update_layout(barmode="group")
    return labelled(figure, title, x, y)


def _width(value: Sequence[float] | float | None) -> float:
    several = value is not None and not isinstance(value, float) and len(value) > 1
    return float(np.std(value, ddof=1)) if several else 0.0  # type: ignore[arg-type]
