"""How pictures look: colours, dashes, margins."""

import math

import plotly.graph_objects as go

# Okabe and Ito's colours, which colour-blind readers can tell apart; then the same again with other dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
_DASHES = ("solid", "dash", "dot")


def style(number: int) -> dict[str, str]:
    """The line of the algorithm with this number."""
    return {"color": _COLOURS[number % len(_COLOURS)], "dash": _DASHES[number // len(_COLOURS) % len(_DASHES)]}


def log_scale(figure: go.Figure, tame: list[float]) -> None:
    """A log axis that shows all of the `tame` values, and of runs that went wild only where they leave the picture."""
    shown = [value for value in tame if value > 0]
    span = [math.log10(min(shown)) - 0.2, math.log10(max(shown)) + 1] if shown else None
    figure.update_yaxes(type="log", exponentformat="power", range=span)


def labelled(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    """The figure with its title and axes, laid out like all others."""
    return figure.update_layout(
        title=title,
        xaxis_title=x,
        yaxis_title=y,
        template="plotly_white",
        height=430,
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": -0.2},
    )
