"""Pictures of what was measured of Per-FedAvg, beside Theorem 4.5 and its lemmas."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from idiolect.papers.log_plots import finished, line, measured, slope
from idiolect.papers.round_claims import with_some
from idiolect.papers.round_measures import Noise, Unlike
from idiolect.papers.round_pieces import RoundResult, bound_of, of_study
from idiolect.report.page import Picture
from idiolect.report.style import INK

_SQUARE = "mean squared gradient norm"


def pictures(results: Sequence[RoundResult], noises: Sequence[Noise], people: Sequence[Unlike]) -> list[Picture]:
    """The rate, what stays, and the noise of the Hessian-free estimate."""
    return [_rate(results, True), _rate(results, False), _closeness(results, people), _floors(results), _noise(noises)]


def _rate(results: Sequence[RoundResult], shared: bool) -> Picture:
    chosen, figure = of_study(results, "rates"), go.Figure()
    lanes = chosen[0].lanes(lambda setting: bool(setting.longest) == shared)
    for number, lane in enumerate(lanes):
        tau = chosen[0].piece.lanes[lane].local_steps
        rounds = [result.piece.steps / tau for result in chosen]
        measured(figure, number, f"tau = {tau}", rounds, [result.found.mean_square[:, lane] for result in chosen])
        bounds = [float(np.mean([bound.total for bound in bound_of(result, lane)])) for result in chosen]
        line(figure, f"Theorem 4.5, tau = {tau}", rounds, bounds, ("solid", "dot", "dash", "dashdot")[number % 4], INK)
    told = "1 / (10 * 8 L_F), for every tau" if shared else "the largest that the theorem admits, 1 / (10 tau L_F)"
    said = (
        "Curves for more local steps lie lower: what counts is tau K."
        if shared
        else "All curves fall on one: what tau gives, the step size takes back, in the bound as in the runs."
    )
    return finished(
        figure,
        f"Clients that agree, with exact gradients: beta = {told}",
        "K (rounds)",
        _SQUARE,
        f"The theorem's first term is all there is here. {said} The bound is about four times what is measured.",
    )


def _closeness(results: Sequence[RoundResult], people: Sequence[Unlike]) -> Picture:
    chosen, figure = of_study(results, "closeness"), go.Figure()
    apart = {them.people: float(them.distance.mean()) for them in people}
    at = [apart[result.piece.people] for result in chosen]
    for number, lane in enumerate(chosen[0].lanes(with_some)):
        setting = chosen[0].piece.lanes[lane]
        name = f"tau = {setting.local_steps}, {setting.active} active"
        measured(figure, number, name, at, [result.found.late_square[:, lane] for result in chosen])
    slope(figure, "W^2", at, float(chosen[0].found.late_square[:, -1].mean()), lambda far: far**2)
    bounds = [float(np.mean([bound.diversity for bound in bound_of(result, 0)])) for result in chosen]
    line(figure, "60 gamma_F^2", at, bounds, "solid", INK)
    return finished(
        figure,
        "What stays, against how far clients' data lie apart",
        "W (root mean square of 1-Wasserstein distances to the average of all)",
        f"{_SQUARE}, second half of the run",
        "Clients with exact gradients, of which some are active in a round. What stays is in proportion to the step "
        "size as well, which the theorem's last term is not: it is millions of times what is measured.",
    )


def _floors(results: Sequence[RoundResult]) -> Picture:
    figure = go.Figure()
    (first,) = of_study(results, "approximations", "first_order")
    (free,) = of_study(results, "approximations", "hessian_free")
    lanes = first.lanes(lambda setting: setting.local_steps == 1)
    alphas = [first.piece.lanes[lane].alpha for lane in lanes]
    measured(figure, 0, "first order, against alpha L", alphas, [first.floor[:, lane] for lane in lanes])
    slope(figure, "x^2", alphas, float(first.floor[:, lanes[0]].mean()), lambda x: x**2)
    lanes = free.lanes(lambda setting: setting.local_steps == 1)
    deltas = [free.piece.lanes[lane].delta for lane in lanes]
    measured(figure, 1, "Hessian-free, against delta", deltas, [free.floor[:, lane] for lane in lanes])
    slope(figure, "x^4", deltas, float(free.floor[:, lanes[0]].mean()), lambda x: x**4)
    return finished(
        figure,
        "What approximations leave, with exact gradients",
        "alpha L, or delta",
        "squared norm of the mean gradient",
        "The first-order version ends up where another cost is stationary, alpha^2 away; differences of gradients are "
        "right to second order, so that their floor falls like delta^4, faster than Lemma G.2's delta^2.",
    )


def _noise(noises: Sequence[Noise]) -> Picture:
    figure, chosen = go.Figure(), [noise for noise in noises if noise.case.derivative == "hessian_free"]
    deltas = [noise.case.delta for noise in chosen]
    measured(figure, 0, "measured", deltas, [noise.found for noise in chosen])
    line(figure, "Lemma G.2", deltas, [noise.printed.mean() for noise in chosen], "solid", INK)
    line(figure, "both gradients on one batch", deltas, [noise.sharper.mean() for noise in chosen], "dash", INK)
    return finished(
        figure,
        "The noise of the Hessian-free estimate",
        "delta",
        "mean squared error",
        "Lemma G.2 bounds the two gradients of a difference one by one, and grows like 1 / delta^2; both are taken on "
        "the same batch, where their noise cancels.",
    )
