"""Views of a figure that a reader can switch between."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go


class Choice(NamedTuple):
    """What a view changes of the traces (lists, an entry for each) and of the layout, as plotly's `update` has it."""

    name: str
    data: Mapping[str, Any] = {}
    layout: Mapping[str, Any] = {}


def one_at_a_time(figure: go.Figure, owners: Sequence[str], first: str | None = None) -> list[Choice]:
    """Show the traces of one owner at a time; `owners` says whose each trace is, the empty name is everybody's."""
    names = [name for name in dict.fromkeys(owners) if name]
    names.sort(key=lambda name: name != first)
    for trace, owner in zip(figure.data, owners, strict=True):
        trace.visible = owner in ("", *names[:1])
    return [Choice(name, {"visible": [owner in ("", name) for owner in owners]}) for name in names]
