"""The style of pictures: colours, dashes, margins.

Colours are names of `page.css`, which says what they are in the light, in the dark and in print. They are Okabe and
Ito's, which colour-blind readers can tell apart; their black is a grey that can be seen on both grounds.
"""

import math
from typing import Any

import plotly.graph_objects as go

INK, MUTED, GRID, CARD = "var(--ink)", "var(--muted)", "var(--grid)", "var(--card)"
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, GREY, BROWN = (f"var(--colour-{number})" for number in range(1, 9))
_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, GREY, BROWN)
_DASHES = ("solid", "dash", "dot", "dashdot")

_AXIS = {
    "gridcolor": GRID,
    "zerolinecolor": GRID,
    "linecolor": MUTED,
    "tickcolor": MUTED,
    "automargin": True,
    "title": {"standoff": 8},
}
TEMPLATE: dict[str, Any] = {
    "layout": {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "colorway": list(_COLOURS),
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "margin": {"l": 50, "r": 15, "t": 25, "b": 45},
        "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top", "bgcolor": "rgba(0,0,0,0)"},
        "hoverlabel": {"bgcolor": CARD, "bordercolor": MUTED, "font": {"color": INK}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": INK},
    }
}

_FEW_DECADES = 3.0  # of an axis that has 2 and 5 between powers of ten


def style(number: int) -> dict[str, str]:
    """The line of the algorithm with this number: colours first, then the same again with other dashes."""
    return {"color": _COLOURS[number % len(_COLOURS)], "dash": _DASHES[number // len(_COLOURS) % len(_DASHES)]}


def log_scale(figure: go.Figure, tame: list[float]) -> None:
    """A log axis that shows all of the `tame` values, and of runs that went wild only where they leave the picture."""
    shown = [value for value in tame if value > 0]
    span = [math.log10(min(shown)) - 0.2, math.log10(max(shown)) + 1] if shown else None
    few = span is not None and span[1] - span[0] < _FEW_DECADES
    # Left to itself, plotly writes all nine digits of a decade, one over the other.
    figure.update_yaxes(type="log", exponentformat="power", range=span, dtick="D2" if few else None)


def labelled(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    """The figure with its title and axes; the page's template does the rest."""
    return figure.update_layout(title=title, xaxis_title=x, yaxis_title=y)
