"""The page of `idiolect inspect`, with pictures."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np
import plotly.graph_objects as go

from idiolect.errors import UserMistake
from idiolect.experiments.value import Experiment
from idiolect.files import write_atomically
from idiolect.inspection.cost_estimate import Estimate
from idiolect.inspection.inspection_tables import (
    cost_columns,
    cost_lines,
    cost_row,
    heterogeneity_rows,
    size_rows,
    together,
)
from idiolect.inspection.problem_inspection import Inspection
from idiolect.report.headline import Rows
from idiolect.report.page import Picture, Section, page
from idiolect.report.style import labelled, style
from idiolect.report.tables import as_html

_OURS = "<!-- idiolect inspect -->"  # by which a page of ours is known, and may be written anew
_BARS = 40  # clients for which bars can be told apart
_MEASURES = ["measure", "value", "on what, and what to hold it against"]
_HELD = (
    "Each column is a client, each row a class, the colour how much of the client's samples are of it. Clients that "
    "hold alike stand side by side: stripes that go on are groups of clients that could share a model."
)
_SIZES = "How many samples clients have, all parts together. A long tail means clients who cannot learn much alone."
_TV = (
    "Each cell is a pair of clients: 0 where they hold the same classes in the same shares, 1 where they have no class "
    "in common. Dark blocks along the diagonal are groups; a flat picture has none."
)
_W1 = (
    "How far the training samples of two clients lie apart: the least mean distance over which one's must be moved to "
    "make the other's. {alike:.3g} is what two random samples of everybody's rows show; only what exceeds it tells "
    "clients apart."
)
_DEVIATION = (
    "How far each client's gradient at the start points away from everybody's, ||grad f_i - grad f||; the line is "
    "gamma_G, their root mean square.{more}"
)
_UNUSUAL = " Further right are clients whose classes are unusual: if they stand higher too, classes explain it."


def may_write(path: Path) -> Path:
    """The path, unless something that `inspect` has not written lies there."""
    if path.is_dir():
        raise UserMistake(f"--out {path} is a folder; name a file, such as {path / 'inspect.html'}")
    if not path.parent.is_dir():
        raise UserMistake(f"--out {path} cannot be written: there is no folder {path.parent}")
    if path.exists() and _OURS.encode() not in path.read_bytes():
        raise UserMistake(f"--out {path} exists and is no page of `idiolect inspect`; name another file")
    return path


def write_page(path: Path, experiment: Experiment, found: Inspection, cost: Estimate) -> None:
    """Draw everything into one HTML file."""
    sections = [
        Section("Who holds what", _OURS + _notes(found.notes) + as_html(size_rows(found)), _holdings(found)),
        Section(
            "How heterogeneous it is",
            as_html(Rows(_MEASURES, heterogeneity_rows(found)), words=True),
            _distances(found),
        ),
        Section(
            "What a run will take: an estimate",
            as_html(Rows(cost_columns(), [cost_row(each) for each in cost.algorithms])) + _notes(cost_lines(cost)),
        ),
    ]
    write_atomically(path, page(f"{experiment.name}, before training", sections).encode())


def _notes(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _holdings(found: Inspection) -> list[Picture]:
    pictures = []
    if found.classes is not None:
        shown = [found.classes.compared[k] for k in side_by_side(found.classes.between)]
        counts = found.classes.counts[shown]
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        figure = _heat(shares.T, shown, list(range(counts.shape[1])), "share of the client's samples", counts.T)
        figure.update_traces(zmin=0, zmax=float(shares.max()))
        pictures.append(Picture(labelled(figure, "Classes of each client", "client", "class"), _HELD))
    everything = together(found)
    if everything.min() == everything.max() and found.classes is None:
        return pictures
    figure = go.Figure()
    if len(everything) <= _BARS:
        for number, (name, sizes) in enumerate(found.sizes.items()):
            figure.add_bar(
                x=[str(k) for k in range(len(sizes))], y=sizes, name=name, marker_color=style(number)["color"]
            )
        figure.update_layout(barmode="stack", xaxis_type="category")
        pictures.append(Picture(labelled(figure, "Samples of each client", "client", "samples"), _SIZES))
    else:
        figure.add_histogram(x=everything, marker_color=style(0)["color"])
        pictures.append(Picture(labelled(figure, "Samples per client", "samples", "clients"), _SIZES))
    return pictures


def _distances(found: Inspection) -> list[Picture]:
    pictures = []
    if found.classes is not None and len(found.classes.compared) > 1:
        figure = _square(found.classes.between, found.classes.compared, "TV").update_traces(zmin=0, zmax=1)
        title = "Total variation between clients' classes"
        pictures.append(Picture(labelled(figure, title, "client", "client"), _TV))
    if found.samples is not None and len(found.samples.clients) > 1:
        figure = _square(found.samples.between, found.samples.clients, "W1")
        title = "1-Wasserstein distance between clients' samples"
        caption = _W1.format(alike=found.samples.alike)
        pictures.append(Picture(labelled(figure, title, "client", "client"), caption))
    return [*pictures, _deviation(found)]


def _deviation(found: Inspection) -> Picture:
    each, colour = found.diversity.deviations, style(1)["color"]
    figure = go.Figure()
    title = "Gradients at the start"
    if found.classes is None:
        ordered = sorted(each, key=lambda client: -each[client])
        figure.add_bar(x=[str(c) for c in ordered], y=[each[c] for c in ordered], marker_color=style(0)["color"])
        figure.update_layout(xaxis_type="category")
        labelled(figure, title, "client", "distance from everybody's gradient")
    else:
        place = {client: k for k, client in enumerate(found.participating)}
        figure.add_scatter(
            x=[found.classes.to_average[place[client]] for client in each],
            y=list(each.values()),
            text=[f"client {client}" for client in each],
            mode="markers",
            marker_color=style(0)["color"],
        )
        figure.update_xaxes(range=[0, 1])
        labelled(figure, title, "TV of the client's classes to everybody's", "distance from everybody's gradient")
    figure.add_hline(found.diversity.gradient, line={"color": colour, "dash": "dot"}, annotation_text="gamma_G")
    figure.update_yaxes(rangemode="tozero")
    return Picture(figure, _DEVIATION.format(more="" if found.classes is None else _UNUSUAL))


def side_by_side(between: np.ndarray) -> list[int]:
    """An order in which those that lie close together follow each other: the leaves of a tree of clusters."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(between) < 3:
        return list(range(len(between)))
    tree = linkage(squareform(between, checks=False), "average", optimal_ordering=True)
    return [int(place) for place in leaves_list(tree)]


def _square(between: np.ndarray, clients: Sequence[int], name: str) -> go.Figure:
    order = side_by_side(between)
    names = [clients[k] for k in order]
    apart = between[np.ix_(order, order)].astype(float)
    np.fill_diagonal(apart, np.nan)  # nobody is compared with itself, and its 0 would hide what differs
    return _heat(apart, names, names, name)


def _heat(
    values: np.ndarray, across: Sequence[int], down: Sequence[int], name: str, also: np.ndarray | None = None
) -> go.Figure:
    """A heat map whose rows and columns are names, not numbers."""
    shown = f"{name}: %{{z:.3g}}" + ("" if also is None else "<br>%{customdata} samples")
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=[str(one) for one in across],
            y=[str(one) for one in down],
            colorscale="Cividis",
            colorbar={"title": {"text": name, "side": "right"}},
            customdata=also,
            hovertemplate=f"%{{x}}, %{{y}}<br>{shown}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure
