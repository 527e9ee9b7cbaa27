"""The pictures of a run, as one page that needs no network to open."""

from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go

from idiolect.building import describe, headline_column
from idiolect.files import write_atomically
from idiolect.network.rounds import Rounds
from idiolect.network.timeline import NO_ROUND, Timeline, active_share, staleness
from idiolect.recipes import Recipe
from idiolect.report.client_pictures import client_pictures
from idiolect.report.level_pictures import level_pictures
from idiolect.report.map_pictures import map_pictures
from idiolect.report.page import Picture, Section, page
from idiolect.report.peer_pictures import Cells, Pictures, distance_picture, peer_pictures
from idiolect.report.style import labelled, log_scale, style
from idiolect.runs.folder import RunFolder

_PER_CLIENT = "Every dot is a participating client at the end of the run, all seeds; the box spans the middle half."
_OVER_STEPS = "The last model after more and more personal steps; mean over participating clients and seeds."
_ACTIVITY = (
    "Clients that download, compute or upload, as a share of all that take part (first seed). "
    "Turns that would not be over by the end are not begun."
)
_STALENESS = "How many updates (or rounds) came between a turn's download and its upload (first seed)."
_WHO_WORKS = "Each bar is a client's turn, from the offer of the model to the arrival of its update (first seed)."


def write_pictures(folder: RunFolder, recipe: Recipe, cells: Cells, references: list[dict[str, Any]]) -> Path:
    """Draw all pictures of a run into `pictures.html`."""
    done = {cell["label"] for cell in cells}
    tables = {label: folder.timeline(label, recipe.seeds[0]) for label in recipe.labels if label in done}
    turns = {label: table for label, table in tables.items() if isinstance(table, Timeline)}
    figures = [
        (_over_time(recipe, cells, references), _caption_over_time(recipe, cells)),
        *map_pictures(recipe, cells),
        *client_pictures(recipe, cells, references),
        *distance_picture(recipe, cells),
        *_over_steps(recipe, cells),
        (_per_client(recipe, cells), _PER_CLIENT),
        *level_pictures(recipe, cells),
        *(_server_pictures(recipe, _schedules(recipe, turns)) if turns else []),
        *peer_pictures(recipe, cells, {k: table for k, table in tables.items() if isinstance(table, Rounds)}),
    ]
    path = folder.path / "pictures.html"
    sections = [Section("", pictures=[Picture(*each) for each in figures])]
    write_atomically(path, page(recipe.name, sections).encode())
    return path


def _server_pictures(recipe: Recipe, schedules: dict[str, Timeline]) -> Pictures:
    return [
        (_activity(recipe, schedules), _ACTIVITY),
        (_staleness(schedules), _STALENESS),
        (_who_works(recipe, schedules), _WHO_WORKS),
    ]


def _schedules(recipe: Recipe, tables: dict[str, Timeline]) -> dict[str, Timeline]:
    """The different timelines of a run, named after the first algorithms that follow them."""
    schedules: dict[str, Timeline] = {}
    for label in recipe.labels:
        table = tables.get(label)
        if table is None or any(np.array_equal(table.arrived, seen.arrived) for seen in schedules.values()):
            continue
        kind = "asynchronous" if (table.round == NO_ROUND).all() else "synchronous"
        schedules[f"{kind} ({label})"] = table
    return schedules


def _over_time(recipe: Recipe, cells: Cells, references: list[dict[str, Any]]) -> go.Figure:
    column, figure = headline_column(recipe), go.Figure()
    for number, label in enumerate(recipe.labels):
        mine = [cell for cell in cells if cell["label"] == label]
        if not mine:
            continue
        shortest = min(len(cell["points"]) for cell in mine)  # a run may have ended before its time
        times = [point["time"] for point in mine[0]["points"][:shortest]]
        scores = [[point["participating"][column]["mean"] for point in cell["points"][:shortest]] for cell in mine]
        curves = np.array(scores)
        middle, width = curves.mean(0), curves.std(0, ddof=1) if len(curves) > 1 else np.zeros(len(times))
        low = np.maximum(middle - width, curves.min(0))  # a band below all curves would not show on a log scale
        band = {"x": [*times, *times[::-1]], "y": [*(middle + width), *low[::-1]]}
        colour = style(number)["color"]
        figure.add_scatter(
            **band,
            fill="toself",
            opacity=0.15,
            line_width=0,
            fillcolor=colour,
            legendgroup=label,
            showlegend=False,
            hoverinfo="skip",
        )
        figure.add_scatter(x=times, y=middle, name=label, legendgroup=label, line=style(number), mode="lines")
    if not cells[0]["higher_is_better"]:  # errors are told apart by their size
        tame = [point["participating"][column]["mean"] for c in cells if not c["ended"] for point in c["points"]]
        log_scale(figure, tame)
    metric = cells[0]["metric"]
    for name in recipe.evaluation.references:
        scores = [list(record["scores"][metric].values()) for record in references if record["name"] == name]
        figure.add_hline(float(np.mean(scores)), line={"color": "#666", "dash": "dot"}, annotation_text=name)
    return labelled(figure, f"{metric.capitalize()} over virtual time", "virtual time", metric)


def _over_steps(recipe: Recipe, cells: Cells) -> Pictures:
    """The score at the end after each number of adaptation steps, if there are enough to make a curve."""
    steps, figure = recipe.evaluation.steps, go.Figure()
    if len(steps) < 3:
        return []
    for number, label in enumerate(recipe.labels):
        ends = [c["points"][-1]["participating"] for c in cells if c["label"] == label and not c["ended"]]
        if ends:
            middle = [float(np.mean([end[str(k)]["mean"] for end in ends])) for k in steps]
            figure.add_scatter(x=steps, y=middle, name=label, line=style(number), mode="lines+markers")
    metric = cells[0]["metric"]
    title = f"{metric.capitalize()} after adaptation"
    return [(labelled(figure, title, "gradient steps on the adaptation part", metric), _OVER_STEPS)]


def _per_client(recipe: Recipe, cells: Cells) -> go.Figure:
    column, figure = headline_column(recipe), go.Figure()
    for number, label in enumerate(recipe.labels):
        scores = [
            client["scores"][column]
            for cell in cells
            if cell["label"] == label and not cell["ended"]
            for client in cell["clients"]
            if client["group"] == "participating"
        ]
        figure.add_box(
            y=scores,
            name=label,
            boxpoints="all",
            jitter=0.5,
            pointpos=0,
            marker={"size": 3, "color": style(number)["color"]},
            showlegend=False,
        )
    return labelled(figure, f"{cells[0]['metric'].capitalize()} of every client", "", cells[0]["metric"])


def _activity(recipe: Recipe, schedules: dict[str, Timeline]) -> go.Figure:
    times, figure = np.linspace(0, recipe.horizon, 400), go.Figure()
    clients = max(len(np.unique(table.client)) for table in schedules.values())
    for number, (name, table) in enumerate(schedules.items()):
        figure.add_scatter(x=times, y=active_share(table, clients, times), name=name, line=style(number), mode="lines")
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    return labelled(figure, "Share of active clients", "virtual time", "active clients")


def _staleness(schedules: dict[str, Timeline]) -> go.Figure:
    figure = go.Figure()
    for number, (name, table) in enumerate(schedules.items()):
        figure.add_histogram(
            x=staleness(table)[table.delivered],
            name=name,
            marker_color=style(number)["color"],
            histnorm="percent",
            opacity=0.75,
        )
    figure.update_layout(barmode="overlay")
    return labelled(figure, "Staleness of updates", "updates in between", "percent of updates")


def _who_works(recipe: Recipe, schedules: dict[str, Timeline]) -> go.Figure:
    figure = go.Figure()
    for number, (name, table) in enumerate(schedules.items()):
        shown = table.offered <= recipe.horizon / 5  # the first fifth; all of it would be a wall of bars
        span = {"base": table.offered[shown], "x": (table.arrived - table.offered)[shown], "y": table.client[shown]}
        figure.add_bar(
            **span,
            orientation="h",
            name=name,
            marker_color=style(number)["color"],
            opacity=0.7,
            visible=True if number == 0 else "legendonly",
        )
    figure.update_layout(barmode="overlay")
    return labelled(figure, "Who works when", "virtual time", "client")


def _caption_over_time(recipe: Recipe, cells: Cells) -> str:
    seeds = len({cell["seed"] for cell in cells})
    return (
        f"Mean over participating clients, {describe(recipe)['personalized']}; line and band: mean and standard "
        f"deviation over {seeds} seed{'s' if seeds > 1 else ''}."
    )
