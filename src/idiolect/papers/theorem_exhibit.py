"""PARS-Push, Theorem 1 and Lemma 5: without convexity gradients fall as 1/sqrt(nT), and how far agents are apart.

Agents look for the place that their samples lie around under Cauchy's loss (smooth, bounded gradients, not convex),
with u = 1, batches of 1, everybody awake and 30 % of the messages lost. The gradient of F^(1) is the exact one, over
all inner batches, at the average X(t)'1/n of all mass, in every round. Beside it stands what (108) adds up to.
"""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go

from idiolect.contracts import Params, Problem, Scalar, StepRule
from idiolect.network.topologies import ring
from idiolect.network.unreliable_links import Links
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Scale
from idiolect.papers.exponents import powers
from idiolect.papers.pars_push_runs import Settings, courses, kept
from idiolect.papers.trials import named
from idiolect.papers.verdicts import judged
from idiolect.problems import problem
from idiolect.problems.synthetic import robust_location
from idiolect.report.page import Picture
from idiolect.report.style import labelled, style
from idiolect.theory import (
    consensus_bound,
    consensus_constants,
    contact_period,
    nonconvex_smoothness,
    nonconvex_variance,
)

NAME = "pars-push-theorem-1"
_ALPHA = 0.5
_LINKS = Links(wake=1.0, gamma_w=1, gamma_d=2, gamma_f=1)
_LOOKS = 6400  # the most: longer runs are looked at every few rounds
CELLS = {  # (agents, rounds); T >= n
    "quick": ((2, 50), (4, 50), (4, 200)),
    "desk": ((4, 6400), (8, 400), (8, 1600), (8, 6400), (16, 6400)),
    "paper": ((4, 25600), (8, 400), (8, 1600), (8, 6400), (8, 25600), (16, 25600), (32, 25600)),
}
_KICK, _RING = 6, 4  # the round of the only step, and how many agents, in the study of Lemma 5


def _problem(agents: int, seed: int) -> Problem:
    return robust_location(clients=agents, samples=20, heterogeneity=0.5, noise=0.5, distance=0.0, seed=seed)


def _cost(samples: jax.Array, z: Params) -> Scalar:
    """F^(1) of (4) with batches of 1, exactly: the mean over agents, inner samples and outer samples."""

    def loss(z: Params, place: jax.Array) -> Scalar:
        return 0.5 * jnp.log1p(((z - place) ** 2).sum())  # Cauchy's, with L = 1 and a width of 1

    def after(own: jax.Array, place: jax.Array) -> Scalar:
        return jax.vmap(partial(loss, z - _ALPHA * jax.grad(loss)(z, place)))(own).mean()

    return jax.vmap(lambda own: jax.vmap(partial(after, own))(own).mean())(samples).mean()


def samples_of(given: Problem) -> jax.Array:
    """The training samples of every agent, as (agent, sample, d)."""
    train = given.clients.train
    size = int(train.sizes.min())
    return jnp.stack([train.rows["place"][start : start + size] for start in train.starts])


def measure(agents: int, rounds: int, seeds: Sequence[int]) -> np.ndarray:
    """For every seed: (1/T) sum of ||grad F||^2, (1/T) sum of Psi, and F(0)."""
    problems = [_problem(agents, seed) for seed in seeds]
    constants = problems[0].constants
    assert constants is not None
    smooth = nonconvex_smoothness(constants, steps=1, step_size=_ALPHA)
    settings = Settings("pars_push", {"steps": 1, "step_size": _ALPHA}, 1 / smooth, StepRule("horizon"))
    times = np.unique(np.linspace(0, rounds, min(rounds, _LOOKS) + 1).astype(int)).tolist()
    (found,) = courses(problems, [_LINKS], settings, seeds, times)
    slope = jax.grad(_cost, argnums=1)
    gradient = jax.jit(lambda own, points: jax.lax.map(partial(slope, own), points, batch_size=64))
    rows = []
    for course, given in zip(found, problems, strict=True):
        own = samples_of(given)
        slopes = np.asarray(gradient(own, jnp.asarray(course.average[:-1])))
        apart = ((course.models - course.average[:, None]) ** 2).sum((1, 2))[:-1]
        rows.append([float((slopes**2).sum(-1).mean()), float(apart.mean()), float(_cost(own, jnp.zeros(2)))])
    return np.array(rows)


def bound(agents: int, rounds: int, apart: float, start: float) -> float:
    """What (108) adds up to over T rounds with theta = sqrt(n) / (L-hat sqrt(T)), Psi as measured and inf F >= 0."""
    constants = _problem(2, 0).constants
    assert constants is not None
    smooth = nonconvex_smoothness(constants, steps=1, step_size=_ALPHA)
    theta = np.sqrt(agents / rounds) / smooth
    noise = nonconvex_variance(constants, steps=1, step_size=_ALPHA)
    return float(2 * start / (theta * rounds) + theta * noise * smooth / agents + 2 * smooth**2 / agents * apart)


def _kicked(seeds: Sequence[int]) -> np.ndarray:
    """Of every seed: the most that ||z_i - X'1/n||_1 is of Lemma 5's bound, as printed and repaired.

    Four agents in a ring start at 0, where three of them want to be. Agent 0 wants to go elsewhere and takes one step,
    in round 6; nobody takes another.
    """
    wants = np.zeros((_RING, 1))
    wants[0] = 1.0

    def loss(z: Params, batch: jax.Array) -> Scalar:
        return 0.5 * ((z - batch) ** 2).sum(-1).mean()

    given = problem(lambda key: jnp.zeros(1), loss, [np.repeat(want[None], 5, 0) for want in wants])
    links = Links(wake=1.0, gamma_w=1, loss=0.5, gamma_f=2, gamma_d=2)
    once = StepRule("own", theta=lambda t: float(t == _KICK))
    settings, times = Settings("rasgp", {}, 1.0, once, wire=ring()), list(range(_KICK, _KICK + 30))
    (found,) = courses([given] * len(seeds), [links], settings, seeds, times)
    constants = consensus_constants(_RING, contact_period(1, links.gamma_d, links.gamma_f))  # type: ignore[arg-type]
    rows = []
    for course in found:
        apart = np.abs(course.models - course.average[:, None]).sum(-1).max(-1)[1:]
        step = float(np.abs(course.average[-1]).sum() * _RING)  # ||Delta||_1, of the only step
        steps = [[0.0] * _KICK + [step] + [0.0] * k for k in range(len(apart))]
        printed = np.array([consensus_bound(constants, 0.0, some, lemma_5="printed") for some in steps])
        repaired = np.array([consensus_bound(constants, 0.0, some, lemma_5="repaired") for some in steps])
        rows.append([float((apart / printed).max()), float((apart / repaired).max())])
    return np.array(rows)


def _perform(request: Request) -> Findings:
    folder = request.out / named(NAME, request, EXHIBIT.scales[request.scale].seeds)
    cells, seeds, found = CELLS[request.scale], list(request.seeds), {}
    for number, (agents, rounds) in enumerate(cells):
        request.progress(f"{agents} agents, {rounds} rounds", number / len(cells))
        asked = {"agents": agents, "rounds": rounds, "seeds": seeds}
        found[agents, rounds] = kept(
            folder / f"agents-{agents}-rounds-{rounds}.json", asked, partial(measure, agents, rounds, seeds)
        )
    kicked = kept(folder / "lemma-5.json", {"seeds": seeds}, partial(_kicked, seeds))
    return Findings(claims(found, kicked, seeds), [_picture(found)])


def claims(found: dict[tuple[int, int], np.ndarray], kicked: np.ndarray, seeds: Sequence[int]) -> list[Claim]:
    """Rates by powers fitted to means over seeds; bounds by all cells and seeds."""
    cells = list(found)
    squares = [found[cell][:, 0] for cell in cells]
    in_agents, in_rounds = powers(squares, [(float(n), float(t)) for n, t in cells], 2)
    ratios = [bound(n, t, row[1], row[2]) / row[0] for (n, t), rows in found.items() for row in rows]
    psi_agents, psi_rounds = powers([found[cell][:, 1] for cell in cells], [(float(n), float(t)) for n, t in cells], 2)
    values = {f"{n} agents, {t} rounds": found[n, t].tolist() for n, t in cells}
    least, printed, repaired = min(ratios), kicked[:, 0], kicked[:, 1]
    return [
        Claim(
            "The mean of ||grad F(X'1/n)||^2 over T rounds falls at least like 1/sqrt(T)",
            "T^-0.5",
            f"T^{in_rounds}",
            "the interval of the exponent (jackknife over seeds) ends at or below -0.45; fails if it begins above",
            judged(in_rounds.high <= -0.45, in_rounds.low <= -0.45),
            seeds,
            values={"mean_square, Psi, F(0)": values},
        ),
        Claim(
            "It falls at least like 1/sqrt(n)",
            "n^-0.5",
            f"n^{in_agents}",
            "the interval of the exponent (jackknife over seeds) ends at or below -0.35; fails if it begins above",
            judged(in_agents.high <= -0.35, in_agents.low <= -0.35),
            seeds,
            values={"mean_square, Psi, F(0)": values},
        ),
        Claim(
            "It stays below what (108) adds up to, with Lemma 3's constants and the measured distances between agents",
            "never above",
            f"below in {sum(ratio >= 1 for ratio in ratios)} of {len(ratios)}; the bound is at least {least:.3g} times "
            "what is measured",
            "every setting and seed",
            "holds" if least >= 1 else "fails",
            seeds,
            values={"ratios": ratios},
        ),
        Claim(
            "The squared distance of agents from their average falls like theta^2, as 1/T",
            "T^-1",
            f"T^{psi_rounds}, n^{psi_agents}",
            "the exponent of T lies within 0.15 of -1, its interval within 0.3",
            judged(
                abs(psi_rounds.estimate + 1) <= 0.15 and psi_rounds.low >= -1.3 and psi_rounds.high <= -0.7,
                psi_rounds.low <= -0.85 and psi_rounds.high >= -1.15,
            ),
            seeds,
            values={"mean_square, Psi, F(0)": values},
        ),
        Claim(
            "Lemma 5, as printed: after one step of one agent, ||z_i - X'1/n||_1 <= delta lambda^(t-k) ||Delta||_1",
            "never above",
            f"up to {printed.max():.3g} times the bound; above it in {int((printed > 1).sum())} of {len(printed)} runs",
            "every run, four agents in a ring, 30 rounds after the step",
            "holds" if (printed <= 1).all() else "fails",
            seeds,
            "" if (printed <= 1).all() else _LEMMA,
            {"ratios": printed.tolist()},
        ),
        Claim(
            "Lemma 5, divided by gamma: the same is never above",
            "",
            f"at most {repaired.max():.2g} of the bound",
            "every run, four agents in a ring, 30 rounds after the step",
            "holds" if (repaired <= 1).all() else "fails",
            seeds,
            values={"ratios": repaired.tolist()},
        ),
    ]


_LEMMA = (
    "A step Delta changes z_i by Delta / y_i, and the weight y_i is below 1 while what an agent has said is under way "
    "or lost. delta = 1 / (1 - n gamma^6) is 1 to rounding and has no room for 1 / y_i, of which gamma alone is a "
    "bound. Theorem 1 keeps its order; the constant of its O(1/T) does not."
)


def _picture(found: dict[tuple[int, int], np.ndarray]) -> Picture:
    figure = go.Figure()
    for number, agents in enumerate(sorted({n for n, _ in found})):
        rounds = [t for n, t in found if n == agents]
        middle = [float(found[agents, t][:, 0].mean()) for t in rounds]
        figure.add_scatter(x=rounds, y=middle, name=f"n = {agents}", line=style(number), mode="lines+markers")
        above = [np.mean([bound(agents, t, row[1], row[2]) for row in found[agents, t]]) for t in rounds]
        figure.add_scatter(
            x=rounds, y=above, name=f"(108), n = {agents}", line={**style(number), "dash": "dot"}, mode="lines+markers"
        )
    figure.update_xaxes(type="log").update_yaxes(type="log", exponentformat="power")
    title = "Gradients against rounds, and what (108) adds up to"
    said = (
        "Mean over the first T rounds of the exact squared gradient norm at the average of all mass, mean over seeds."
    )
    return Picture(labelled(figure, title, "T", "mean squared gradient norm"), said)


EXHIBIT = Exhibit(
    NAME,
    "PARS-Push, Theorem 1 and Lemma 5",
    "How fast the gradient of nonconvex costs falls with rounds and agents, and how far agents are apart.",
    {
        "quick": Scale("2 and 4 agents, up to 200 rounds", (0, 1)),
        "desk": Scale(
            "4 to 16 agents, 400 to 6400 rounds", tuple(range(212, 332))
        ),  # 100 to 111 were seen while it was made; 200 to 211 were too few for the exponent of T
        "paper": Scale("4 to 32 agents, 400 to 25 600 rounds", tuple(range(100, 132))),
    },
    _perform,
)
