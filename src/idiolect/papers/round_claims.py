"""What the measurements say to Per-FedAvg's Theorem 4.5, and to what it rests on."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from idiolect.comparison.pairing import LEVEL, paired
from idiolect.papers.exhibit import Claim
from idiolect.papers.exponents import Power, powers
from idiolect.papers.findings import finding
from idiolect.papers.round_measures import Noise, Unlike
from idiolect.papers.round_pieces import CLIENTS, RoundResult, Setting, bound_of, drift_of, of_study
from idiolect.papers.verdicts import judged, surely_above
from idiolect.theory.per_fedavg import Derivative

ESTIMATES: dict[Derivative, str] = {
    "exact": "Per-FedAvg",
    "first_order": "first-order Per-FedAvg",
    "hessian_free": "Hessian-free Per-FedAvg",
}
_found = partial(finding, "per-fedavg-theorem-4-5")


def claims(
    results: Sequence[RoundResult], noises: Sequence[Noise], people: Sequence[Unlike], seeds: Sequence[int]
) -> list[Claim]:
    """All claims, decided."""
    several = len(of_study(results, "batches")) > 1
    return [
        *(_never_above(results, derivative, seeds) for derivative in ESTIMATES),
        _rate(results, seeds, "With one step for every tau", lambda setting: setting.longest > 0),
        _rate(results, seeds, "With the largest step that the theorem admits", lambda setting: not setting.longest),
        *([_batches(results, seeds)] if several else []),
        _closeness(results, people, seeds),
        _first_order(results, seeds),
        _hessian_free(results, seeds),
        _drift(results, seeds),
        _noise(noises, seeds),
        _diversity(people, seeds),
        _independence(results, seeds),
    ]


def with_everyone(setting: Setting) -> bool:
    """Whether all clients are active in every round."""
    return setting.active == CLIENTS


def with_some(setting: Setting) -> bool:
    """Whether some are not."""
    return setting.active < CLIENTS


def _never_above(results: Sequence[RoundResult], derivative: Derivative, seeds: Sequence[int]) -> Claim:
    below, ratios = 0, []
    for result in (result for result in results if result.piece.derivative == derivative):
        for lane in range(len(result.piece.lanes)):
            bound = float(np.mean([bound.total for bound in bound_of(result, lane)]))
            values = result.found.mean_square[:, lane]
            below += bool(values.mean() + 2 * _error(values) <= bound)
            ratios.append(bound / values.mean())
    return Claim(
        f"{ESTIMATES[derivative]}: the mean squared gradient stays below the bound of Theorem 4.5",
        "never above",
        f"below in {below} of {len(ratios)} settings; the bound is at least {min(ratios):.3g} times what is measured",
        f"mean + 2 standard errors over {len(seeds)} seeds",
        "holds" if below == len(ratios) else "fails",
        seeds,
    )


def _rate(results: Sequence[RoundResult], seeds: Sequence[int], which: str, chosen: Callable[[Setting], bool]) -> Claim:
    """The theorem's first term alone: clients that agree, with exact gradients."""
    cells, columns = [], []
    for result in of_study(results, "rates"):
        for lane in result.lanes(chosen):
            tau = result.piece.lanes[lane].local_steps
            cells.append((result.piece.steps / tau, tau))
            columns.append(result.found.mean_square[:, lane])
    in_rounds, in_steps = powers(columns, cells, 2)
    return Claim(
        f"{which}, the mean squared gradient falls like 1 / (tau K)",
        "K^-1, tau^-1",
        f"K^{in_rounds}, tau^{in_steps}",
        "clients that agree, with exact gradients; both intervals (jackknife over seeds) end at or below -0.9",
        judged(_steep(in_rounds) and _steep(in_steps), in_rounds.estimate <= -0.9 and in_steps.estimate <= -0.9),
        seeds,
        "" if _steep(in_steps) else _found("largest step"),
    )


def _batches(results: Sequence[RoundResult], seeds: Sequence[int]) -> Claim:
    chosen = of_study(results, "batches")
    lanes = chosen[0].lanes(with_everyone)
    falls = [
        surely_above(np.log(one.found.late_square[:, lane]), np.log(other.found.late_square[:, lane]))
        for one, other in pairwise(chosen)
        for lane in lanes
    ]
    cells = [(1 / result.piece.batch_size,) for result in chosen]
    (power,) = powers([result.found.late_square[:, lanes].mean(1) for result in chosen], cells, 1)
    return Claim(
        "What stays of the squared gradient is made small by larger batches",
        "",
        f"(1/b)^{power} from b = {chosen[0].piece.batch_size} to {chosen[-1].piece.batch_size}, everyone active",
        f"second half of the run; logarithms of neighbours paired over seeds (p < {LEVEL}): {sum(falls)} of "
        f"{len(falls)} fall with b",
        judged(all(falls), any(falls)),
        seeds,
    )


def _closeness(results: Sequence[RoundResult], people: Sequence[Unlike], seeds: Sequence[int]) -> Claim:
    chosen = of_study(results, "closeness")
    lanes = chosen[0].lanes(with_some)
    grows = [
        surely_above(np.log(other.found.late_square[:, lane]), np.log(one.found.late_square[:, lane]))
        for one, other in pairwise(chosen)
        for lane in lanes
    ]
    apart = {them.people: float(them.distance.mean()) for them in people}
    cells = [(apart[result.piece.people],) for result in chosen]
    (power,) = powers([result.found.late_square[:, lanes].mean(1) for result in chosen], cells, 1)
    return Claim(
        "What stays of the squared gradient is small where clients' data are close to each other",
        "at most 60 gamma_F^2, of the order W^2",
        f"W^{power} from W = {cells[0][0]:.2g} to {cells[-1][0]:.2g}, with 1 or 2 of {CLIENTS} clients active",
        f"W: root mean square of measured 1-Wasserstein distances to the average of all; second half of the run, exact "
        f"gradients; logarithms of neighbours paired over seeds (p < {LEVEL}): {sum(grows)} of {len(grows)} grow with "
        "W",
        judged(all(grows), any(grows)),
        seeds,
    )


def _first_order(results: Sequence[RoundResult], seeds: Sequence[int]) -> Claim:
    (chosen,), (exact,) = (of_study(results, "approximations", how) for how in ("first_order", "exact"))
    lanes = chosen.lanes(lambda setting: setting.local_steps == 1)  # more steps drift, whatever the estimate
    least = float((chosen.floor / exact.floor)[:, lanes].min())
    (power,) = powers(list(chosen.floor[:, lanes].T), [(chosen.piece.lanes[lane].alpha,) for lane in lanes], 1)
    return Claim(
        "The first-order version leaves an error that does not vanish, but is negligible if alpha is small",
        "2 (alpha L B)^2",
        f"alpha^{power}; at least {least:.2g} times what the exact version leaves",
        "the floor with exact gradients and tau = 1: above 10 times that of the exact version in every seed and "
        "setting, and the interval of its power in alpha lies above 1",
        judged(least > 10 and power.low > 1, least > 1),
        seeds,
    )


def _hessian_free(results: Sequence[RoundResult], seeds: Sequence[int]) -> Claim:
    (chosen,) = of_study(results, "approximations", "hessian_free")
    lanes = chosen.lanes(lambda setting: setting.local_steps == 1)  # more steps drift, however small delta is
    (power,) = powers(list(chosen.floor[:, lanes].T), [(chosen.piece.lanes[lane].delta,) for lane in lanes], 1)
    means = chosen.floor[:, lanes].mean(0)
    return Claim(
        "The Hessian-free version leaves an error that vanishes with delta",
        "2 (alpha rho delta)^2 B^4, so delta^2",
        f"delta^{power}, {means[0]:.2g} at delta = {chosen.piece.lanes[lanes[0]].delta:g}",
        "the floor with exact gradients and tau = 1; the interval of its power in delta lies above 0",
        judged(power.low > 0, power.estimate > 0),
        seeds,
    )


def _drift(results: Sequence[RoundResult], seeds: Sequence[int]) -> Claim:
    below, ratios = 0, []
    for result in (result for result in results if result.piece.study != "rates"):  # where clients agree, none drifts
        for lane in range(len(result.piece.lanes)):
            bounds = np.array(drift_of(result, lane)).mean(0)
            found = np.array([result.found.distance[:, lane], result.found.square[:, lane]])
            over = found.mean(1) + 2 * np.array([_error(values) for values in found])
            below += bool((over <= bounds).all())
            ratios.append(float(np.min(bounds / found.mean(1))))
    return Claim(
        "Corollary E.2: within a round clients stay together, in the mean and in the mean square",
        "never above",
        f"below in {below} of {len(ratios)} settings; the bounds are at least {min(ratios):.3g} times what is measured",
        f"at the ends of rounds, mean + 2 standard errors over {len(seeds)} seeds",
        "holds" if below == len(ratios) else "fails",
        seeds,
    )


def _noise(noises: Sequence[Noise], seeds: Sequence[int]) -> Claim:
    ratios = np.array([noise.printed / noise.found for noise in noises])
    sharper = np.array([noise.sharper / noise.found for noise in noises])
    free = [k for k, noise in enumerate(noises) if noise.case.derivative == "hessian_free"]
    return Claim(
        "Lemmas 4.3, G.1 and G.2: the noise of the exact, first-order and Hessian-free estimates is at most sigma_F^2",
        "never above",
        f"below in {int((ratios >= 1).sum())} of {ratios.size} cases; the bound is at least {ratios.min():.3g} times "
        f"what is measured; for Hessian-free up to {ratios[free].max():.2g} times as delta shrinks, and up to "
        f"{sharper[free].max():.2g} times with both gradients on one batch",
        "mean over draws at the worst client and point of every seed",
        "holds" if (ratios >= 1).all() else "fails",
        seeds,
    )


def _diversity(people: Sequence[Unlike], seeds: Sequence[int]) -> Claim:
    # Of all people: gradients and Hessians in rows, seeds in columns.
    shares = np.array([np.array([them.gradient, them.hessian]) / np.array(them.bounds).T for them in people])
    return Claim(
        "(22a, b): how unlike clients' gradients and Hessians are follows from Wasserstein distances",
        "never above",
        f"below in {int((shares <= 1).sum())} of {shares.size} cases; gradients reach {shares[:, 0].min():.2f} to "
        f"{shares[:, 0].max():.2f} of the bound, Hessians {shares[:, 1].min():.2f} to {shares[:, 1].max():.2f}",
        "the largest over 40 points around the clients, for every seed",
        "holds" if (shares <= 1).all() else "fails",
        seeds,
    )


def _independence(results: Sequence[RoundResult], seeds: Sequence[int]) -> Claim:
    columns = []
    for result in (*of_study(results, "batches"), *of_study(results, "closeness")):
        for lane in result.lanes(lambda setting: with_some(setting) and setting.local_steps > 1):
            columns.append(result.found.misfit[:, lane] / result.found.mean_square[:, lane])
    shares = np.stack(columns, 1)
    pooled = paired(shares.mean(1).tolist(), [0.0] * len(seeds))
    wrong = pooled.high < 0 or pooled.low > 0
    return Claim(
        "(101): after local steps of some clients E[grad F(w')^T S(w')] is E||grad F(w')||^2",
        "equal",
        f"apart by {pooled.mean:.2g} [{pooled.low:.2g}, {pooled.high:.2g}] of the mean squared gradient, "
        f"{shares.mean(0).min():.2g} to {shares.mean(0).max():.2g} by setting",
        f"95 % interval over seeds of the mean over {shares.shape[1]} settings with r < 1 and tau > 1, at t >= 1; it "
        "fails if that leaves out zero",
        "fails" if wrong else "holds",
        seeds,
        _found("independence") if wrong else "",
    )


def _steep(power: Power) -> bool:
    return power.high <= -0.9


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
