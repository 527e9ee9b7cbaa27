"""What the measured rates say to PersA-FL's Table 1."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from idiolect.comparison.pairing import LEVEL
from idiolect.papers.exhibit import Claim
from idiolect.papers.exponents import powers
from idiolect.papers.findings import finding
from idiolect.papers.rate_pieces import LOCAL_STEPS, Result, bound_of, cost_of, known, of_study
from idiolect.papers.trajectories import Option
from idiolect.papers.verdicts import judged, surely_above
from idiolect.theory import maml_bias

METHODS: dict[Option, tuple[str, int]] = {  # with the number of its theorem
    "plain": ("FedAsync", 1),
    "maml": ("PersA-FL-MAML", 2),
    "moreau": ("PersA-FL-ME", 3),
}
_found = partial(finding, "persa-fl-table-1")


def claims(results: Sequence[Result], seeds: Sequence[int]) -> list[Claim]:
    """All claims, decided."""
    late = [option for option in METHODS if of_study(results, "staleness", option)]
    return [
        *(_never_violated(results, option, seeds) for option in METHODS),
        _square_root(results, seeds),
        *(_staleness(results, option, seeds) for option in late),
        _inner_floor(results, seeds),
        _inner_powers(results, seeds),
        _accuracy(results, seeds),
        _no_batches(results, seeds),
    ]


def bias_floor(result: Result, alpha: float) -> tuple[float, float]:
    """The last term of Theorem 2, 4 Q mu_b^2: as printed, and with the sharper bias."""
    sharper = maml_bias(*known(result.piece.study), step_size=alpha, batch_size=result.piece.batch_size)
    return 4 * LOCAL_STEPS * cost_of(result.piece, alpha).bias ** 2, 4 * LOCAL_STEPS * sharper**2


def _never_violated(results: Sequence[Result], option: Option, seeds: Sequence[int]) -> Claim:
    name, theorem = METHODS[option]
    ratios, below, waiting = [], 0, 0
    for result in (result for result in results if result.piece.option == option):
        for lane in range(len(result.piece.lanes)):
            bound = bound_of(result.piece, lane)
            if bound is None:
                waiting += 1
                continue
            values = result.mean_square[:, lane]
            error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
            below += bool(values.mean() + 2 * error <= bound.total)
            ratios.append(bound.total / values.mean())
    return Claim(
        f"{name}: (1/T) sum of E||grad F(w^t)||^2 stays below the bound of Theorem {theorem}",
        "never above",
        f"below in {below} of {len(ratios)} settings; the bound is at least {min(ratios):.3g} times what is measured",
        f"mean + 2 standard errors over {len(seeds)} seeds; {waiting} more settings are shorter than it asks",
        "holds" if below == len(ratios) else "fails",
        seeds,
    )


def _square_root(results: Sequence[Result], seeds: Sequence[int]) -> Claim:
    chosen = [result for result in of_study(results, "rates", "plain") if result.piece.batch_size == 1]
    steps = [result.piece.steps for result in chosen]
    (power,) = powers([result.mean_square[:, 0] for result in chosen], [(at,) for at in steps], 1)
    return Claim(
        "FedAsync: without staleness the mean squared gradient falls like 1/sqrt(T)",
        "T^-0.5",
        f"T^{power} from T = {min(steps)} to {max(steps)}, b = 1",
        "the interval of the exponent (jackknife over seeds) ends at or below -0.45",
        judged(power.high <= -0.45, power.estimate <= -0.45),
        seeds,
    )


def _staleness(results: Sequence[Result], option: Option, seeds: Sequence[int]) -> Claim:
    """The excess over tau = 0, on the same clients in the same order."""
    cells, columns, tried = [], [], 0
    for result in of_study(results, "staleness", option):
        late = [tau for tau, _ in result.piece.lanes]
        fresh = result.mean_square[:, late.index(0)]
        for lane, tau in ((lane, tau) for lane, tau in enumerate(late) if tau):
            tried += 1
            if surely_above(result.mean_square[:, lane], fresh):
                cells.append((tau, result.piece.steps))
                columns.append(result.mean_square[:, lane] - fresh)
    in_tau, in_steps = powers(columns, cells, 2)
    at_most = in_tau.high <= 2 and in_steps.low <= -1
    return Claim(
        f"{METHODS[option][0]}: what staleness adds grows at most like tau^2 and falls at least like 1/T",
        "tau^2, T^-1",
        f"tau^{in_tau}, T^{in_steps}",
        f"excess over tau = 0 with exact gradients, paired over seeds: above zero (p < {LEVEL}) in {len(cells)} of "
        f"{tried} settings, powers fitted to these; tau's interval ends by 2, that of T reaches -1 or lies below",
        judged(at_most, in_tau.estimate <= 2),
        seeds,
        _found("staleness") if in_tau.high < 1.8 else "",
    )


def _inner_floor(results: Sequence[Result], seeds: Sequence[int]) -> Claim:
    chosen = of_study(results, "inner batches", "maml")
    alphas = [alpha for _, alpha in chosen[0].piece.lanes]
    floor = np.stack([result.floor for result in chosen], 1)  # (seed, batch size, alpha)
    lanes, batches = range(len(alphas)), range(len(chosen))
    falls = [surely_above(floor[:, k, lane], floor[:, k + 1, lane]) for k, lane in product(batches[:-1], lanes)]
    grows = [surely_above(floor[:, k, lane + 1], floor[:, k, lane]) for k, lane in product(batches, lanes[:-1])]
    printed = np.array([[bias_floor(result, alpha)[0] for alpha in alphas] for result in chosen])
    means = floor.mean(0)
    return Claim(
        "PersA-FL-MAML: inner batches leave a floor that falls with b and grows with alpha, under the theorem's",
        "4 Q alpha^2 L^2 (1 + alpha L)^2 sigma_g^2 / b",
        f"{means.min():.2g} to {means.max():.2g}, at most {float((means / printed).max()):.2g} of the theorem's",
        f"neighbours paired over seeds (p < {LEVEL}): {sum(falls)} of {len(falls)} fall with b, {sum(grows)} of "
        f"{len(grows)} grow with alpha",
        judged(all(falls) and all(grows) and bool((means <= printed).all()), any(falls) and any(grows)),
        seeds,
    )


def _inner_powers(results: Sequence[Result], seeds: Sequence[int]) -> Claim:
    cells, columns = [], []
    for result in of_study(results, "inner batches", "maml"):
        for lane, (_, alpha) in enumerate(result.piece.lanes):
            if surely_above(result.floor[:, lane]):
                cells.append((alpha, 1 / result.piece.batch_size))
                columns.append(result.floor[:, lane])
    in_alpha, in_batch = powers(columns, cells, 2)
    as_printed = in_alpha.reaches(2) and in_batch.reaches(1)
    unknown = not math.isfinite(in_alpha.low + in_batch.low)
    return Claim(
        "PersA-FL-MAML: the floor is proportional to alpha^2 / b",
        "alpha^2, (1/b)^1",
        f"alpha^{in_alpha}, (1/b)^{in_batch}",
        f"powers fitted to the {len(cells)} settings whose floor is above zero (p < {LEVEL}); both intervals reach the "
        "paper's",
        judged(as_printed and not unknown, unknown),
        seeds,
        "" if as_printed else _found("inner powers"),
    )


def _accuracy(results: Sequence[Result], seeds: Sequence[int]) -> Claim:
    (result,) = of_study(results, "accuracy", "moreau")
    nus = [nu for _, nu in result.piece.lanes]
    grows = [surely_above(result.floor[:, k + 1], result.floor[:, k]) for k in range(len(nus) - 1)]
    (power,) = powers(list(result.floor.T), [(nu,) for nu in nus], 1)
    share = float((result.floor.mean(0) / np.square(nus)).max())
    return Claim(
        "PersA-FL-ME: an inner problem left at a gradient of nu leaves a floor like nu^2",
        "nu^2",
        f"nu^{power}, at most {share:.2g} nu^2",
        f"neighbours paired over seeds (p < {LEVEL}): {sum(grows)} of {len(grows)} grow with nu; the power lies "
        "between 1.8 and 2.2",
        judged(all(grows) and 1.8 <= power.estimate <= 2.2, any(grows)),
        seeds,
        _found("accuracy") if power.reaches(2) and not 1.8 <= power.estimate <= 2.2 else "",
    )


def _no_batches(results: Sequence[Result], seeds: Sequence[int]) -> Claim:
    """Table 1, and the text under Corollary 3: no direct dependence on the batch size."""
    chosen = of_study(results, "batches", "moreau")
    nu = chosen[0].piece.lanes[0][1]
    bound = bound_of(chosen[0].piece, 0)
    printed = bound.personalization if bound else math.nan
    over = [surely_above(result.floor[:, 0], np.full(len(seeds), printed)) for result in chosen]
    there = [result for result in chosen if surely_above(result.floor[:, 0])]
    (power,) = powers([result.floor[:, 0] for result in there], [(1 / result.piece.batch_size,) for result in there], 1)
    means = ", ".join(f"{result.floor[:, 0].mean():.2g} (b = {result.piece.batch_size})" for result in chosen)
    return Claim(
        "PersA-FL-ME: once the inner problem is solved there is no floor, whatever the batch size",
        f"4 Q lambda^2 nu^2 / (lambda - L)^2, here {printed:.2g}",
        f"{means}; (1/b)^{power}",
        f"nu = {nu:g}; the floor is above the theorem's last term (one-sided t over seeds, p < {LEVEL}) for "
        f"{sum(over)} of {len(over)} batch sizes",
        "fails" if any(over) else "holds",
        seeds,
        _found("no batches") if any(over) else "",
    )
