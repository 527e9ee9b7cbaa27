"""Without waiting: who is active, how old updates are when they arrive, and who works when."""

import numpy as np
import plotly.graph_objects as go

from idiolect.network.round_tables import Rounds
from idiolect.report.choices import one_at_a_time
from idiolect.report.page import Picture, Section
from idiolect.report.report_data import ReportData
from idiolect.report.schedules import Schedule, schedules
from idiolect.report.style import BLUE, GREY, ORANGE, SKY, VERMILION, labelled, style

_TURNS = 2500  # drawn in one timeline; more would be a wall
_BARS = 60
_FRESH = "<p>Nothing is stale here: every update was made from the newest model.</p>"
_EACH = 12  # clients have a tick of their own
_AT_FIRST = 120  # turns in the window when the page is opened
_COLOURS = {"downloads": SKY, "computes": BLUE, "uploads": ORANGE, "uploads in vain": VERMILION, "awake": GREY}


def waiting_section(data: ReportData) -> Section:
    """Activity, staleness (in words if there is none) and the timeline of every schedule."""
    found = schedules(data)
    stale = any(schedule.ages.any() for schedule in found)
    pictures = [_activity(data, found), *([_ages(found)] if stale else []), _timeline(data, found)]
    return Section("Without waiting", "" if stale else _FRESH, pictures)


def _activity(data: ReportData, found: list[Schedule]) -> Picture:
    figure, said = go.Figure(), []
    clients = max((len(np.unique(s.table.client)) for s in found if not isinstance(s.table, Rounds)), default=1)
    for number, schedule in enumerate(found):
        times, share = schedule.activity(data.horizon, clients)
        figure.add_scatter(x=times, y=share, name=schedule.name, line=style(number), mode="lines")
        said.append(f"{share.mean():.0%} {schedule.name}")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    labelled(figure, "Share of active clients", data.time, "active clients")
    return Picture(
        figure,
        f"On the average active: {'; '.join(said)}. Active clients download, compute or upload (agents without a "
        "server: are awake), as a share of all that take part, first seed. Where a server waits for the slowest, the "
        "share falls until the round is over. Turns that would not be over by the end are not begun.",
    )


def _ages(found: list[Schedule]) -> Picture:
    figure, said = go.Figure(), []
    fresh = [schedule.name for schedule in found if not schedule.ages.any()]  # a bar of 100 % would dwarf the others
    for number, schedule in enumerate(found):
        ages = schedule.ages
        if schedule.name in fresh:
            continue
        width = max(1, -(-(int(ages.max(initial=0)) + 1) // _BARS))  # whole numbers, a few to a bar if there are many
        share = 100 * np.bincount(ages // width) / max(len(ages), 1)
        bars = {"marker": {"color": style(number)["color"], "line": {"width": 0}}, "opacity": 0.65, "width": width}
        middles = np.arange(len(share)) * width + (width - 1) / 2
        figure.add_bar(x=middles, y=share, name=schedule.name, showlegend=True, **bars)
        said.append(f"{schedule.name} {ages.mean():.3g} on the average, at most {ages.max()}")
    said += [f"{name} none" for name in fresh]
    figure.update_layout(barmode="overlay").update_xaxes(tickformat="d")
    labelled(figure, "Staleness of updates", "versions in between", "percent of updates")
    return Picture(
        figure,
        f"How many updates (or rounds) came between a turn's download and its upload; between agents, how many rounds "
        f"old a message is when it is taken in. First seed: {'; '.join(said)}. The longer the tail to the right, the "
        "older the models that late updates are made from.",
    )


def _timeline(data: ReportData, found: list[Schedule]) -> Picture:
    figure, owners, cut = go.Figure(), list[str](), list[str]()
    window = data.horizon
    for schedule in found:
        stretches, total = schedule.stretches(_TURNS)
        if total > _TURNS:
            cut.append(f"the first {_TURNS} of {total} of {schedule.name}")
        begins = np.sort(np.concatenate([stretch.begin for stretch in stretches]))
        if total > _AT_FIRST:
            window = min(window, float(begins[min(_AT_FIRST * len(stretches), len(begins)) - 1]))
        for doing, client, begin, end in stretches:
            figure.add_scatter(
                x=_with_gaps(begin, end),
                y=np.repeat(client.astype(float), 3),
                mode="lines",
                line={"color": _COLOURS[doing], "width": 4},
                name=doing,
                hovertemplate=f"client %{{y}} {doing}<br>%{{x}}<extra></extra>",
            )
            owners.append(schedule.name)
    choices = one_at_a_time(figure, owners)
    figure.update_xaxes(rangeslider={"visible": True, "thickness": 0.09}, range=[0, window])
    last = max((int(trace.y.max()) for trace in figure.data), default=0)
    figure.update_yaxes(range=[-0.6, last + 0.6], tickformat="d", dtick=1 if last <= _EACH else None)
    labelled(figure, "Who works when", data.time, "client").update_layout(height=540, legend_y=-0.45)
    drawn = f" Drawn are {'; '.join(cut)}." if cut else ""
    return Picture(
        figure,
        "Every row is a client, every line a part of one of its turns (first seed); gaps are waiting. Drag across the "
        f"picture or its strip below to zoom, click twice to go back.{drawn}",
        choices,
    )


def _with_gaps(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """From begin to end, and then nothing, for each."""
    return np.stack([begin.astype(float), end.astype(float), np.full(len(begin), np.nan)], axis=1).ravel()
