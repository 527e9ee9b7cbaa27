"""Pictures with logarithmic axes: what was measured over seeds, bounds beside it, and slopes to compare it with."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from idiolect.report.page import Picture
from idiolect.report.style import labelled, style


def measured(figure: go.Figure, number: int, name: str, at: Sequence[float], values: Sequence[np.ndarray]) -> None:
    """Means over seeds with standard errors; what is not positive cannot be drawn on a log axis."""
    shown = [(x, own) for x, own in zip(at, values, strict=True) if own.mean() > 0]
    errors = [own.std(ddof=1) / math.sqrt(len(own)) if len(own) > 1 else 0.0 for _, own in shown]
    figure.add_scatter(
        x=[x for x, _ in shown],
        y=[own.mean() for _, own in shown],
        error_y={"type": "data", "array": errors, "thickness": 1},
        name=name,
        mode="lines+markers",
        line=style(number),
    )


def line(figure: go.Figure, name: str, x: Sequence[float], y: Sequence[float], dash: str, colour: str) -> None:
    """A line without marks: a bound, or what else was not measured."""
    figure.add_scatter(x=list(x), y=list(y), name=name, mode="lines", line={"dash": dash, "color": colour})


def slope(figure: go.Figure, name: str, x: Sequence[float], first: float, power: Callable[[float], float]) -> None:
    """A reference slope through the first point."""
    if first > 0:
        heights = [first * power(at) / power(x[0]) for at in x]
        line(figure, f"slope of {name}", x, heights, "dash" if "^" in name else "dot", "#8C8C8C")


def finished(figure: go.Figure, title: str, x: str, y: str, caption: str) -> Picture:
    """A picture with two logarithmic axes."""
    labelled(figure, title, x, y)
    figure.update_layout(height=520)
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(type="log", exponentformat="power")
    return Picture(figure, caption)
