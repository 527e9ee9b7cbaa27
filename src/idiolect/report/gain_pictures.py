"""Who gains and who loses by personalization: every client before and after, and its gain against its traits."""

import math
from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from idiolect.report.changes import Change, Tally, changes, tally, trait_column
from idiolect.report.choices import Choice, one_at_a_time
from idiolect.report.client_traits import TRAITS
from idiolect.report.headline import Rows
from idiolect.report.page import Picture, Section
from idiolect.report.report_data import ReportData
from idiolect.report.style import BLUE, INK, MUTED, VERMILION, labelled, style
from idiolect.report.tables import as_html

_DOTS = 3000  # in one picture; beyond that they hide each other, and weigh
_PARTS = 5  # clients are cut into fifths by a trait
_SHORT = {"samples": "samples", "label_skew": "label skew", "staleness": "staleness", "participation": "participation"}
_NOTHING = (
    "<p>This recipe scores one model only (its evaluation has no steps, and no headline of its own), so nobody can be "
    "said to gain or lose by personalization.</p>"
)
_TABLE = (
    "A client loses if its personalized model scores worse than the model it received. Changes are counted so that a "
    "gain is good. On the right: Spearman's rank correlation, over clients and seeds, of the gain "
    "and what a client has. Near 1, those with more of it gain more; near -1, less; a bare - where everybody has the "
    "same, or it is not known."
)


def gain_section(data: ReportData, more: Sequence[Picture]) -> Section:
    """The table in words, both pictures, and more of what clients get."""
    title, found = "Who gains and who loses", changes(data)
    if not found:
        return Section(title, _NOTHING, more)
    tallies = {label: tally(mine) for label, mine in found.items()}
    html = f"{as_html(_rows(tallies))}<p class=quiet>{escape(_TABLE)}</p>"
    moved = {label: mine for label, mine in found.items() if any(change.gain for change in mine)}
    best = max(moved or found, key=lambda label: _mean_after(found[label], data.higher_is_better))
    pictures = [_before_and_after(data, found, tallies, best), *_against_traits(data, moved, tallies)]
    return Section(title, html, [*pictures, *more])


def _mean_after(mine: list[Change], higher_is_better: bool) -> float:
    return float(np.mean([change.after for change in mine])) * (1 if higher_is_better else -1)


def _rows(tallies: dict[str, Tally]) -> Rows:
    known = [name for name in TRAITS if any(math.isfinite(one.ranks[name]) for one in tallies.values())]
    columns = ["algorithm", "clients x seeds", "lose", "mean change", "their mean loss", "change of worst decile"]
    rows = [
        [
            label,
            str(one.clients),
            f"{one.hurt} ({one.hurt / one.clients:.0%})",
            f"{one.mean_gain:+.3g}",
            f"{one.mean_loss:.3g}" if one.hurt else "-",
            f"{one.worst_gain:+.3g}",
            *(f"{one.ranks[name]:+.2f}" if math.isfinite(one.ranks[name]) else "-" for name in known),
        ]
        for label, one in tallies.items()
    ]
    return Rows([*columns, *(f"with {_SHORT[name]}" for name in known)], rows)


def _before_and_after(
    data: ReportData, found: dict[str, list[Change]], tallies: dict[str, Tally], first: str
) -> Picture:
    figure, owners, metric = go.Figure(), [""], data.metric
    everything = [value for mine in found.values() for change in mine for value in (change.before, change.after)]
    low, high = min(everything), max(everything)
    dotted = {"color": MUTED, "dash": "dot", "width": 1}
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", line=dotted, name="as before", hoverinfo="skip", showlegend=False
    )
    for label, mine in found.items():
        shown = _thinned(mine, _DOTS // len(found))
        kinds = {
            "gains, or stays": ([c for c in shown if c.gain >= 0], {"color": BLUE, "symbol": "circle", "size": 7}),
            "loses": ([c for c in shown if c.gain < 0], {"color": VERMILION, "symbol": "triangle-down", "size": 9}),
            "worst decile": (
                [c for c in shown if c.worst],
                {"color": INK, "symbol": "circle-open", "size": 14, "line": {"width": 1.5}},
            ),
        }
        for name, (some, marker) in kinds.items():
            words = [f"{label}, client {c.client}, seed {c.seed}: {c.before:.3g} to {c.after:.3g}" for c in some]
            x, y = [c.before for c in some], [c.after for c in some]
            hover = {"hoverinfo": "skip"} if name == "worst decile" else {"hovertext": words, "hoverinfo": "text"}
            figure.add_scatter(x=x, y=y, mode="markers", name=name, marker=marker, opacity=0.8, **hover)
            owners.append(label)
    if low > 0 and high / low > 50 and not data.higher_is_better:  # errors of very different sizes
        figure.update_layout(xaxis_type="log", yaxis_type="log")
    labelled(figure, "Every client, before and after", f"{metric} of the model as received", f"{metric}, personalized")
    return Picture(figure, _caption(data, tallies, found), one_at_a_time(figure, owners, first))


def _caption(data: ReportData, tallies: dict[str, Tally], found: dict[str, list[Change]]) -> str:
    order = sorted(tallies, key=lambda label: tallies[label].hurt / tallies[label].clients)
    told = order if len(order) <= 6 else [*order[:2], *order[-2:]]
    counts = ", ".join(f"{label} {tallies[label].hurt} of {tallies[label].clients}" for label in told)
    side = "below" if data.higher_is_better else "above"
    thin = " Only some of the clients are drawn, evenly by their gain." if _too_many(found) else ""
    return (
        f"Every dot is a participating client of one seed; those {side} the dotted diagonal lose by personalization "
        f"(triangles): {counts}. Rings are the worst decile after it. A client with few test samples moves in large "
        f"steps.{thin}"
    )


def _against_traits(data: ReportData, found: dict[str, list[Change]], tallies: dict[str, Tally]) -> list[Picture]:
    """The gain of every client against each of the traits that differ between clients, one trait at a time."""
    known = [name for name in TRAITS if any(math.isfinite(one.ranks[name]) for one in tallies.values())]
    if not known:
        return []
    figure, places = go.Figure(), {name: {"x": list[list[float]](), "y": list[list[float]]()} for name in known}
    for number, (label, mine) in enumerate(found.items()):
        colour = style(data.labels.index(label))["color"]
        shown = _thinned(mine, _DOTS // len(found))
        words = [f"{label}, client {change.client}, seed {change.seed}: {change.gain:+.3g}" for change in shown]
        marker = {"color": colour, "size": 5, "symbol": number % 8}
        group = {"legendgroup": label, "marker": marker}
        figure.add_scatter(mode="markers", opacity=0.35, hovertext=words, hoverinfo="text", showlegend=False, **group)
        line = style(data.labels.index(label))
        figure.add_scatter(mode="lines+markers", name=label, legendgroup=label, line=line, marker_size=8)
        for name in known:
            x, y = _fifths(trait_column(mine, name), np.array([change.gain for change in mine]))
            places[name]["x"] += [trait_column(shown, name).tolist(), x]
            places[name]["y"] += [[change.gain for change in shown], y]
    for trace, x, y in zip(figure.data, *places[known[0]].values(), strict=True):
        trace.x, trace.y = x, y
    figure.add_hline(0, line={"color": MUTED, "dash": "dot", "width": 1})
    labelled(figure, "Gain by personalization, against what a client has", TRAITS[known[0]], "gain (below 0: loss)")
    return [Picture(figure, _caption_against(tallies, known), [_view(name, places[name]) for name in known])]


def _view(name: str, place: dict[str, list[list[float]]]) -> Choice:
    axes = {"xaxis.title.text": TRAITS[name], "xaxis.autorange": True, "yaxis.autorange": True}
    return Choice(_SHORT[name], place, axes)


def _caption_against(tallies: dict[str, Tally], known: list[str]) -> str:
    pairs = [(abs(one.ranks[name]), label, name) for label, one in tallies.items() for name in known]
    strength, label, name = max(pair for pair in pairs if math.isfinite(pair[0]))
    rank = tallies[label].ranks[name]
    says = "those with more of it gain more" if rank > 0 else "those with more of it gain less"
    closest = f"The strongest rank correlation: {label}, {_SHORT[name]} ({rank:+.2f}: {says})"
    weak = "; that is weak" if strength < 0.3 else ""
    return (
        f"Dots are clients of all seeds; lines join the mean gain of each fifth of the clients, by the chosen trait. "
        f"Dots below the dotted line are those that lose. {closest}{weak}. Going along with is not being caused by."
    )


def _fifths(trait: np.ndarray, gains: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean trait and mean gain of fifths of the clients; clients with the same trait stay together."""
    known = np.isfinite(trait)
    trait, gains = trait[known], gains[known]
    if not len(trait):
        return [], []
    edges = np.unique(np.quantile(trait, np.linspace(0, 1, _PARTS + 1)))
    part = np.clip(np.searchsorted(edges, trait, side="right"), 1, max(len(edges) - 1, 1))
    parts = np.unique(part)
    return [float(trait[part == k].mean()) for k in parts], [float(gains[part == k].mean()) for k in parts]


def _too_many(found: dict[str, list[Change]]) -> bool:
    return any(len(mine) > _DOTS // len(found) for mine in found.values())


def _thinned(mine: list[Change], most: int) -> list[Change]:
    """At most so many, evenly by their gain, the extremes among them."""
    if len(mine) <= most:
        return mine
    ordered = sorted(mine, key=lambda change: change.gain)
    return [ordered[k] for k in np.linspace(0, len(ordered) - 1, most).round().astype(int)]
