"""The pieces in which Proposition 1 of PARS-Push is measured: noisy quadratics over links, run and kept in files."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from idiolect.contracts import Problem, StepRule
from idiolect.network.unreliable_links import Links
from idiolect.papers.pars_push_runs import Course, Settings, courses, kept
from idiolect.problems.synthetic import quadratics
from idiolect.theory import Constants, meta_convexity

_ALPHA, _CURVES = 0.1, (1.0, 1.5)  # mu, L
SLEEPY, SLOW = (1, 2, 4, 8), (1, 2, 4, 8)  # Gamma_w, Gamma_d
_PRINTED, _CALM = StepRule("inverse"), StepRule("decreasing", offset=50.0)
_AT_ONCE = 2048  # agents of all lanes of a program, at most


class Sizes(NamedTuple):
    """How much is run at a scale."""

    agents: tuple[int, ...]  # the second is the one for all other measurements
    times: tuple[int, ...]


def _times(last: int) -> tuple[int, ...]:
    return tuple(np.unique(np.geomspace(last / 16, last, 9).astype(int)).tolist())


SIZES = {
    "quick": Sizes((2, 4), _times(160)),
    "desk": Sizes((4, 8, 16, 32), _times(32_000)),  # at 4000, T times the error was still falling
    "paper": Sizes((4, 8, 16, 32, 64), _times(40_000)),
}


class Piece(NamedTuple):
    """Some agents over some links, all seeds side by side."""

    agents: int
    links: tuple[Links, ...]
    rule: StepRule
    times: tuple[int, ...]

    def run(self, seeds: Sequence[int], rounds: int | None = None) -> np.ndarray:
        """Its errors, at its own times or after so many rounds."""
        return _errors(self.agents, self.links, self.rule, seeds, self.times if rounds is None else [rounds])


def plan(scale: str) -> list[Piece]:
    """All pieces of a scale: every number of agents, and at last the steps as printed."""
    size = SIZES[scale]
    links = *(_links(gamma_w=w) for w in SLEEPY), *(_links(gamma_d=d) for d in SLOW if d != 2)
    pieces = [Piece(n, links if n == size.agents[1] else (_links(),), _CALM, size.times) for n in size.agents]
    return [*pieces, Piece(size.agents[1], (_links(), _links(gamma_d=SLOW[-1])), _PRINTED, size.times)]


def errors_of(piece: Piece, seeds: Sequence[int], folder: Path) -> np.ndarray:
    """Mean over agents of ||z_i - z*||^2, as (links, seed, time): from the file of a piece, or by running it."""
    links, rule = [list(one) for one in piece.links], piece.rule.name
    asked = {"links": links, "rule": rule, "seeds": list(seeds), "times": list(piece.times)}
    return kept(folder / f"agents-{piece.agents}-{rule}.json", asked, partial(piece.run, seeds))


def _links(gamma_w: int = 2, gamma_d: int = 2) -> Links:
    return Links(wake=1 / gamma_w, gamma_w=gamma_w, gamma_d=gamma_d)


def _problem(agents: int, seed: int) -> Problem:
    mu, smooth = _CURVES
    return quadratics(
        clients=agents,
        dimension=5,
        samples=100,
        convexity=mu,
        smoothness=smooth,
        heterogeneity=0.5,
        noise=1.0,
        seed=seed,
    )


def _errors(
    agents: int, links: Sequence[Links], rule: StepRule, seeds: Sequence[int], times: Sequence[int]
) -> np.ndarray:
    """Mean over agents of ||z_i - z*||^2, as (links, seed, time); so many seeds at once that their tables have room."""
    some = max(1, _AT_ONCE // (agents * len(links)))
    parts = [_some_errors(agents, links, rule, seeds[k : k + some], times) for k in range(0, len(seeds), some)]
    return np.concatenate(parts, axis=1)


def _some_errors(
    agents: int, links: Sequence[Links], rule: StepRule, seeds: Sequence[int], times: Sequence[int]
) -> np.ndarray:
    problems = [_problem(agents, seed) for seed in seeds]
    mu_hat = meta_convexity(Constants(*_CURVES), steps=1, step_size=_ALPHA)
    personal = {"steps": 1, "step_size": _ALPHA}
    settings = Settings("pars_push", personal, 1 / mu_hat, rule)
    found = courses(problems, links, settings, seeds, times)
    return np.array([[_error(course, problem) for course, problem in zip(row, problems, strict=True)] for row in found])


def _error(course: Course, problem: Problem) -> list[float]:
    from idiolect.objectives import maml

    optimum = problem.optimum(maml(steps=1, step_size=_ALPHA, batches="shared"), 1)
    return ((course.models - np.asarray(optimum)) ** 2).sum(-1).mean(-1).tolist()
