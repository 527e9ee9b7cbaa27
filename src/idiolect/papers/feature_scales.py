"""What PARS-Push's Fig. 1 rests on: the scales of the features, which we chose, and alpha, far beyond Lemma 1's bound.

The paper does not say how inputs are drawn. Both minimisers are known exactly on least squares, so nothing is trained:
from each of them an agent takes u steps on batches of 20 of its adaptation part, the same batches for both, and is
scored on its test part. Only the minimisers differ.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import plotly.graph_objects as go

from idiolect.contracts import Problem, Split
from idiolect.objectives import maml, plain
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Scale
from idiolect.papers.pars_push_runs import kept
from idiolect.papers.trials import named
from idiolect.papers.verdicts import above
from idiolect.problems.synthetic import linear_regression
from idiolect.report.over_time import with_band
from idiolect.report.page import Picture
from idiolect.report.style import labelled
from idiolect.theory import admissible_step_size

NAME = "pars-push-fig-1-settings"
SPREADS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
ALPHA, BATCH, _DRAWS = 0.015, 20, 20
# What would matter at Lemma 1's alpha, by u: a tenth of what Fig. 1 gains with alpha = 0.015 (`pars-push-fig-1`, as
# committed). Stated after seeds 200 to 215 had left the question open, so these decide nothing any more.
WORTH = {1: 0.0019, 2: 0.0027, 3: 0.0041, 4: 0.0047, 5: 0.0050}
_BUDGETS = {"quick": (1,), "desk": (1, 5), "paper": (1, 2, 3, 4, 5)}


def _problem(spread: float, seed: int, small: bool) -> Problem:
    size = {"clients": 4, "dimension": 2, "samples": 40} if small else {"samples": 1000}
    return linear_regression(heterogeneity=1.0, input_spread=spread, seed=seed, **size)


def gain(given: Problem, steps: int, alpha: float, seed: int) -> float:
    """By how much the test error after u steps is lower from the minimiser of F^(u) than from that of f."""
    ours, theirs = (
        np.asarray(given.optimum(objective, BATCH))
        for objective in (maml(steps=steps, step_size=alpha, batches="shared"), plain())
    )
    rng, found = np.random.default_rng([seed, 7]), []
    ridge = 1 / given.clients.total
    for client in given.clients.participating:
        (a, b), (test_a, test_b) = (_rows(part, client) for part in (given.clients.adapt, given.clients.test))
        z = np.repeat(np.stack([theirs, ours])[None], _DRAWS, 0)  # (draw, from where, d)
        for _ in range(steps):
            chosen = rng.integers(len(a), size=(_DRAWS, BATCH))
            errors = np.einsum("kbd,ksd->ksb", a[chosen], z) - b[chosen][:, None]
            z = z - alpha * (2 * np.einsum("ksb,kbd->ksd", errors, a[chosen]) / BATCH + ridge * z)
        scores = ((z @ test_a.T - test_b) ** 2).mean(-1)
        found.append(scores[:, 0] - scores[:, 1])
    return float(np.mean(found))


def _rows(part: Split, client: int) -> tuple[np.ndarray, np.ndarray]:
    which = slice(part.starts[client], part.starts[client] + part.sizes[client])
    return np.asarray(part.rows["a"][which], float), np.asarray(part.rows["b"][which], float)


def ratio(given: Problem, steps: int) -> float:
    """Alpha over the largest that Lemma 1 admits for any eps1 and eps2."""
    assert given.constants is not None
    return ALPHA / admissible_step_size(given.constants, steps, eps1=0.5, eps2=0.5)


def _measure(budgets: Sequence[int], seeds: Sequence[int], small: bool) -> np.ndarray:
    """(seed, u, spread + 2): gains for every spread, alpha over Lemma 1's bound, and the gain at the bound itself."""
    rows = []
    for seed in seeds:
        problems = [_problem(spread, seed, small) for spread in SPREADS]
        rows.append(
            [[*(gain(given, u, ALPHA, seed) for given in problems), *_lawful(problems[-1], u, seed)] for u in budgets]
        )
    return np.array(rows)


def _lawful(given: Problem, steps: int, seed: int) -> tuple[float, float]:
    times = ratio(given, steps)
    return times, gain(given, steps, ALPHA / times, seed)


def _perform(request: Request) -> Findings:
    folder = request.out / named(NAME, request, EXHIBIT.scales[request.scale].seeds)
    budgets, seeds = _BUDGETS[request.scale], list(request.seeds)
    asked = {"budgets": list(budgets), "seeds": seeds, "spreads": list(SPREADS)}
    found = kept(folder / "gains.json", asked, partial(_measure, budgets, seeds, request.scale == "quick"))
    return Findings(claims(found, budgets, seeds), [_picture(found, budgets)])


def claims(found: np.ndarray, budgets: Sequence[int], seeds: Sequence[int]) -> list[Claim]:
    """Paired over seeds."""
    nothing, made = np.zeros(len(found)), []
    for k, u in enumerate(budgets):
        gains, times = found[:, k, : len(SPREADS)], found[:, k, -2].mean()
        made += [
            above(
                f"u = {u}: F^({u})'s minimiser is the better start, features on scales of their own (spread 0.5)",
                gains[:, -1].tolist(),
                nothing.tolist(),
                seeds,
                paper="so in Fig. 1, on inputs it does not describe",
            ),
            above(f"u = {u}: and with all features on one scale", gains[:, 0].tolist(), nothing.tolist(), seeds),
            above(
                f"u = {u}: the gain comes from the feature scales: it is larger with them than without",
                gains[:, -1].tolist(),
                gains[:, 0].tolist(),
                seeds,
            ),
            above(
                f"u = {u}: with alpha at Lemma 1's bound, {times:.0f} times below the 0.015 of the other rows, it is "
                "the better start as well",
                found[:, k, -1].tolist(),
                nothing.tolist(),
                seeds,
                size=WORTH[u],
            ),
        ]
    return made


def _picture(found: np.ndarray, budgets: Sequence[int]) -> Picture:
    figure = go.Figure()
    for k, u in enumerate(budgets):
        with_band(figure, f"u = {u}", k, found[:, k, : len(SPREADS)])
        figure.data[-2].x, figure.data[-1].x = [*SPREADS, *SPREADS[::-1]], list(SPREADS)
    title = "What is gained by minimising F^(u), against how much the scales of features differ"
    said = (
        "Test error after u steps from f's minimiser less that from F^(u)'s, both exact, alpha = 0.015; band: standard "
        "deviation over seeds. A feature's scale is exp(spread * normal), for each agent and feature."
    )
    return Picture(labelled(figure, title, "spread of feature scales", "gain in squared error"), said)


EXHIBIT = Exhibit(
    NAME,
    "PARS-Push, Fig. 1, settings",
    "What Fig. 1's gain rests on: feature scales, which are our choice, and an alpha that Lemma 1 does not admit.",
    {
        "quick": Scale("4 agents, 2 dimensions, u = 1", (0, 1)),
        "desk": Scale("10 agents, 30 dimensions, u = 1 and 5, exact minimisers", tuple(range(216, 232))),
        "paper": Scale("10 agents, 30 dimensions, u = 1 to 5, exact minimisers", tuple(range(216, 248))),
    },
    _perform,
)
