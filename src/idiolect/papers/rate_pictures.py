"""Pictures of the measured rates of PersA-FL beside the bounds and the slopes of its Table 1."""

from collections.abc import Sequence

import plotly.graph_objects as go

from idiolect.papers.log_plots import finished, line, measured, slope
from idiolect.papers.rate_claims import METHODS, bias_floor
from idiolect.papers.rate_pieces import SMOOTHNESS, Result, bound_of, of_study
from idiolect.papers.trajectories import Option
from idiolect.report.page import Picture
from idiolect.report.style import INK

_TERMS = {
    "start": "start, 1/sqrt(T)",
    "noise": "noise, 1/sqrt(T)",
    "staleness": "staleness, 1/T",
    "personalization": "bias",
}


def pictures(results: Sequence[Result]) -> list[Picture]:
    """One for every method against T, then what staleness, batches, alpha and nu add."""
    return [
        *(_against_steps(results, option) for option in METHODS),
        _staleness(results),
        *_inner_batches(results),
        _accuracy(results),
        _batches(results),
    ]


def _against_steps(results: Sequence[Result], option: Option) -> Picture:
    name, theorem = METHODS[option]
    chosen = [result for result in of_study(results, "rates", option) if result.piece.batch_size == 1]
    knob = chosen[0].piece.lanes[0][1]
    lanes = [lane for lane, (_, own) in enumerate(chosen[0].piece.lanes) if own == knob]
    figure = go.Figure()
    steps = [result.piece.steps for result in chosen]
    for number, lane in enumerate(lanes):
        tau = chosen[0].piece.lanes[lane][0]
        measured(figure, number, f"tau = {tau}", steps, [result.mean_square[:, lane] for result in chosen])
    for lane, dash in ((lanes[0], "solid"), (lanes[-1], "dash")):
        bounds = [(result.piece.steps, bound_of(result.piece, lane)) for result in chosen]
        held = [(steps, bound) for steps, bound in bounds if bound is not None]
        late = f"tau = {chosen[0].piece.lanes[lane][0]}"
        if held:
            line(figure, f"bound, {late}", [at for at, _ in held], [bound.total for _, bound in held], dash, INK)
        if lane != lanes[0]:
            continue
        for number, (term, label) in enumerate(_TERMS.items()):
            heights = [getattr(bound, term) for _, bound in held]
            if any(heights):
                line(figure, f"its {label}", [at for at, _ in held], heights, ("dot", "dashdot")[number % 2], "#8C8C8C")
    return finished(
        figure,
        f"{name}: gradients against server steps, and Theorem {theorem}",
        "T (server steps; the step size goes with it)",
        "mean squared gradient norm",
        f"Batches of 1{_told(option, knob)}. Coloured: the mean over the server's first T models of the true squared "
        "gradient norm, mean and standard error over seeds. Above: the theorem's bound, wherever T is large enough for "
        "it; grey: its terms at tau = 0. What is measured runs parallel to the bound, far below it.",
    )


def _staleness(results: Sequence[Result]) -> Picture:
    figure = go.Figure()
    chosen = of_study(results, "staleness", "plain")
    for number, result in enumerate(chosen):
        late = [tau for tau, _ in result.piece.lanes]
        fresh = result.mean_square[:, late.index(0)]
        shown = [(tau, result.mean_square[:, lane] - fresh) for lane, tau in enumerate(late) if tau]
        measured(figure, number, f"T = {result.piece.steps}", [tau for tau, _ in shown], [more for _, more in shown])
    taus = [tau for tau, _ in chosen[0].piece.lanes if tau]
    last = chosen[-1].mean_square
    anchor = float((last[:, 1] - last[:, 0]).mean())
    slope(figure, "tau", taus, anchor, lambda tau: tau)
    slope(figure, "tau^2", taus, anchor, lambda tau: tau**2)
    return finished(
        figure,
        "FedAsync: what staleness adds",
        "tau (every update is exactly this late)",
        "excess over tau = 0",
        "Clients with exact gradients that want different things; the same clients in the same order for every tau, so "
        "that only staleness differs. The excess falls by the factor T grows by, and grows more slowly than tau^2.",
    )


def _inner_batches(results: Sequence[Result]) -> list[Picture]:
    chosen = of_study(results, "inner batches", "maml")
    sizes, alphas = [result.piece.batch_size for result in chosen], [alpha for _, alpha in chosen[0].piece.lanes]
    by_size, by_alpha = go.Figure(), go.Figure()
    for lane, alpha in enumerate(alphas):
        measured(
            by_size, lane, f"alpha = {alpha * SMOOTHNESS:.2g} / L", sizes, [result.floor[:, lane] for result in chosen]
        )
    for number, result in enumerate(chosen):
        floors = [result.floor[:, lane] for lane in range(len(alphas))]
        measured(by_alpha, number, f"b = {result.piece.batch_size}", alphas, floors)
    top, corner = len(alphas) - 1, float(chosen[0].floor[:, -1].mean())
    line(
        by_size,
        "Theorem 2, largest alpha",
        sizes,
        [bias_floor(result, alphas[top])[0] for result in chosen],
        "solid",
        INK,
    )
    slope(by_size, "1/b", sizes, corner, lambda b: 1 / b)
    slope(by_size, "1/b^2", sizes, corner, lambda b: 1 / b**2)
    backwards = alphas[::-1]
    line(
        by_alpha,
        "Theorem 2, smallest b",
        alphas,
        [bias_floor(chosen[0], alpha)[0] for alpha in alphas],
        "solid",
        INK,
    )
    slope(by_alpha, "alpha^2", backwards, corner, lambda alpha: alpha**2)
    slope(by_alpha, "alpha^4", backwards, corner, lambda alpha: alpha**4)
    said = (
        "The part of the squared gradient norm that stays however long the run: the floor of a biased gradient. It "
        "lies far under Theorem 2's last term and follows the steeper grey slope, since the bias is of second order."
    )
    floor = "squared norm of the mean gradient"
    return [
        finished(by_size, "PersA-FL-MAML: the floor against the batch size", "b (batch size)", floor, said),
        finished(
            by_alpha, "PersA-FL-MAML: the floor against the personal step", "alpha (personal step size)", floor, said
        ),
    ]


def _accuracy(results: Sequence[Result]) -> Picture:
    (result,) = of_study(results, "accuracy", "moreau")
    nus = [nu for _, nu in result.piece.lanes]
    figure = go.Figure()
    measured(figure, 0, "measured", nus, list(result.floor.T))
    bounds = [bound_of(result.piece, lane) for lane in range(len(nus))]
    held = [(nu, bound.personalization) for nu, bound in zip(nus, bounds, strict=True) if bound is not None]
    line(figure, "Theorem 3's last term", [nu for nu, _ in held], [height for _, height in held], "solid", INK)
    slope(figure, "nu^2", nus[::-1], float(result.floor[:, -1].mean()), lambda nu: nu**2)
    return finished(
        figure,
        "PersA-FL-ME: the floor against the accuracy of the inner problem",
        "nu (gradient norm at which the inner problem is left)",
        "squared norm of the mean gradient",
        "Clients with exact gradients, so that nothing but the unsolved inner problem is left: a floor parallel to the "
        "theorem's.",
    )


def _batches(results: Sequence[Result]) -> Picture:
    chosen = of_study(results, "batches", "moreau")
    sizes = [result.piece.batch_size for result in chosen]
    figure = go.Figure()
    measured(figure, 0, "measured", sizes, [result.floor[:, 0] for result in chosen])
    for number, lemma in enumerate(("printed", "repaired")):
        bounds = [bound_of(result.piece, 0, "repaired" if number else "printed") for result in chosen]
        heights = [bound.personalization for bound in bounds if bound is not None]
        line(figure, f"Theorem 3's last term, Lemma 6 {lemma}", sizes, heights, ("solid", "dash")[number], INK)
    corner = float(chosen[0].floor[:, 0].mean())
    slope(figure, "1/b", sizes, corner, lambda b: 1 / b)
    slope(figure, "1/b^2", sizes, corner, lambda b: 1 / b**2)
    return finished(
        figure,
        "PersA-FL-ME: the floor against the batch size, inner problem solved",
        "b (batch size)",
        "squared norm of the mean gradient",
        f"nu = {chosen[0].piece.lanes[0][1]:g}. The printed theorem leaves no room for a floor here (solid line), but "
        "small batches have one: the minimiser found on a batch is a biased guess of the one on all samples.",
    )


def _told(option: Option, knob: float) -> str:
    if option == "plain":
        return ""
    return f", alpha = {knob * SMOOTHNESS:.2g} / L" if option == "maml" else f", nu = {knob:g}"
