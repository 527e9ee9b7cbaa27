"""How each of a few clients fares over time, as received and adapted: MEMRL's reward per task."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from idiolect.building import headline_column
from idiolect.recipes import Recipe
from idiolect.report.peer_pictures import Cells, Pictures
from idiolect.report.style import labelled, style

FEW = 6  # with more clients than this a picture for each would say less than the spread over them
_EACH = (
    "Every panel is a client; solid: its personalized model, dotted: the model as received; mean over seeds. "
    "The grey line is what the problem knows to compare with, where the recipe asks for it."
)


def client_pictures(recipe: Recipe, cells: Cells, references: list[dict[str, Any]]) -> Pictures:
    """A panel for each participating client, if there are only a few."""
    clients = [c["client"] for c in cells[0]["clients"] if c["group"] == "participating"]
    if len(clients) > FEW:
        return []
    metric = cells[0]["metric"]
    titles = [f"client {client}" for client in clients]
    figure = make_subplots(cols=len(clients), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.02)
    for number, label in enumerate(recipe.labels):
        mine = [cell for cell in cells if cell["label"] == label and not cell["ended"]]
        for place, client in enumerate(clients if mine else [], start=1):
            _add_curves(figure, recipe, mine, client, number, place)
    for place, client in enumerate(clients, start=1):
        known = [record["scores"][metric][str(client)] for record in references]
        if known:
            figure.add_hline(float(np.mean(known)), line={"color": "#888"}, col=place)
    labelled(figure, f"{metric.capitalize()} of each client over virtual time", "", metric)
    figure.update_xaxes(title="virtual time")
    return [(figure, _EACH)]


def _add_curves(figure: go.Figure, recipe: Recipe, cells: Cells, client: int, number: int, place: int) -> None:
    times = [point["time"] for point in cells[0]["points"]]
    label, colour = cells[0]["label"], style(number)["color"]
    for column, dash in ((headline_column(recipe), "solid"), (str(recipe.evaluation.steps[0]), "dot")):
        curves = [[point["clients"][str(client)][column] for point in cell["points"]] for cell in cells]
        figure.add_scatter(
            x=times,
            y=np.mean(curves, axis=0),
            name=label,
            legendgroup=label,
            showlegend=place == 1 and dash == "solid",
            mode="lines",
            line={"color": colour, "dash": dash},
            row=1,
            col=place,
        )
