"""MEMRL, Fig. 1: a walk on a grid to three goals, with a policy that adapts to each.

The figure's claims are decided on `memrl-navigation`, whose lambda is far below the curvature of the returns and whose
inner problems are cut short: it is not a run that Theorem 1 speaks of. `memrl-regime` is one, on the same grid, and the
exhibit shows where the two part.
"""

from functools import partial

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.records import CellRecord
from idiolect.experiments.value import Experiment
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.experiment_changes import changed, chosen, keeping, with_options
from idiolect.papers.findings import FoundOut, at_the_desk
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import everywhere
from idiolect.report.map_pictures import map_pictures
from idiolect.report.page import Picture
from idiolect.report.report_data import report_data_of
from idiolect.report.style import GREY, labelled, style

_SEEDS = (0, 1, 2, 3, 4)


def _tiny(experiment: Experiment) -> Experiment:
    smaller = experiment.replace(
        problem=chosen(experiment.problem, size=3, goals=[[2, 0], [2, 1], [2, 2]], horizon=5, episodes=5),
        horizon=3.0,
        training=changed(experiment.training, batch_size=5),
        evaluation=changed(experiment.evaluation, batch_size=5, steps=[0, 1], times=[0.0, 3.0]),
    )
    smaller = with_options(smaller, "memrl", objective={"iterations": 2})
    smaller = with_options(smaller, "multi_task", training={"batch_size": 10})
    return keeping(smaller, ("memrl", "multi_task"))


def _tiny_regime(experiment: Experiment) -> Experiment:
    smaller = experiment.replace(
        problem=chosen(experiment.problem, size=3, goals=[[2, 0], [2, 1], [2, 2]], horizon=5, episodes=5),
        horizon=3.0,
        training=changed(experiment.training, batch_size=20),
        evaluation=changed(experiment.evaluation, batch_size=20, steps=[0, 1], times=[0.0, 3.0]),
    )
    return with_options(keeping(smaller, (THEOREM,)), THEOREM, objective={"iterations": 5})


def _short_scores(experiment: Experiment) -> Experiment:
    return experiment.replace(problem=chosen(experiment.problem, episodes=10))


_FULL = "the paper's own: 3 tasks, 120 iterations"
RUN = Trial(
    "memrl-navigation",
    {
        "quick": Size("3 tasks on a 3 x 3 grid, 3 iterations", (0, 1), "memrl-navigation", _tiny),
        "desk": Size(f"{_FULL}, scored on 100 trajectories", _SEEDS, "memrl-navigation"),
        "paper": Size(f"{_FULL}, scored on 10 trajectories", _SEEDS, "memrl-navigation", _short_scores),
    },
)
THEOREM = "memrl-theorem"
REGIME = Trial(
    "memrl-regime",
    {
        "quick": Size("the same on a 3 x 3 grid", (0, 1), "memrl-regime", _tiny_regime),
        "desk": Size("the same grid, lambda = 1, D = 2000", _SEEDS, "memrl-regime"),
        "paper": Size("the same grid, lambda = 1, D = 2000", _SEEDS, "memrl-regime", _short_scores),
    },
)
_OPTIMAL = 0.95  # of the shortest ways' reward


def shares(ran: FinishedTrial, label: str, column: str, place: int = -1) -> np.ndarray:
    """The reward as a share of the best possible from the same starts: a row for each seed, a column for each task."""
    rows = []
    for cell, best in zip(ran.of(label), ran.referred("best", "reward"), strict=True):
        scored = cell.points[place].clients
        rows.append([scored[task][column] / best[task] for task in sorted(scored)])
    return np.array(rows)


def memrl_claims(ran: FinishedTrial) -> list[Claim]:
    """Adapted policies are optimal; neither the common one nor the adapted one before training is."""
    adapted, common = shares(ran, "memrl", "own"), shares(ran, "memrl", "0")
    together, early = shares(ran, "multi_task", "0"), shares(ran, "memrl", "own", 0)
    share = "the share of the best possible reward"
    worst = partial(everywhere, seeds=ran.seeds, what=f"{share} of the worst-served task", most=_OPTIMAL)
    return [
        everywhere(
            "By the last iteration the adapted policy of every task is optimal",
            {f"task {task}": adapted[:, task].tolist() for task in range(adapted.shape[1])},
            ran.seeds,
            what=share,
            least=_OPTIMAL,
            paper="optimal at t = 120",
        ),
        worst(
            "The meta-policy alone is not: it does not serve all tasks",
            {"worst task": common.min(axis=1).tolist()},
            paper="cannot be, for all tasks at once",
        ),
        worst("Nor is one policy trained on all tasks together", {"worst task": together.min(axis=1).tolist()}),
        worst(
            "Adapting is not all: before training the adapted policy does not serve all tasks",
            {"worst task": early.min(axis=1).tolist()},
            paper="trajectories miss their goals at t = 0",
        ),
    ]


def regime_claims(figure: FinishedTrial, regime: FinishedTrial, found: FoundOut) -> list[Claim]:
    """Whether line 6 is solved, in the run of the figure and in one that Theorem 1 speaks of, and what comes of it."""
    cut = partial(everywhere, what="the share of inner problems that the cap cut short, iteration by iteration", most=0)
    adapted = shares(regime, THEOREM, "own")
    return [
        cut(
            "The run of the figure solves its inner problems to nu, as line 6 has it",
            {"memrl": [value for cell in figure.of("memrl") for value in _capped(cell)]},
            figure.seeds,
            finding=found("solved"),
        ),
        cut(
            "With lambda above the curvature, and nu above the noise, line 6 is solved to nu",
            {THEOREM: [value for cell in regime.of(THEOREM) for value in _capped(cell)]},
            regime.seeds,
        ),
        everywhere(
            "There, too, the adapted policy of every task is optimal by the last iteration",
            {f"task {task}": adapted[:, task].tolist() for task in range(adapted.shape[1])},
            regime.seeds,
            what="the share of the best possible reward",
            least=_OPTIMAL,
            finding=found("regime"),
        ),
    ]


def _capped(cell: CellRecord) -> list[float]:
    """The share of inner problems that were cut short, between one evaluation and the next."""
    return [point.reports["capped"] for point in cell.points if "capped" in point.reports]


def _perform(request: Request) -> Findings:
    ran, regime = carry_out(RUN, request), carry_out(REGIME, request)
    data = report_data_of([ran.run])
    maps = map_pictures(data._replace(labels=["memrl"], cells=data.of("memrl")))
    rows = [_row(one, label) for one in (ran, regime) for label in one.labels]
    table = Table(
        "Share of the best possible reward: mean, and worst task and seed",
        ["", "lambda", "inner problems cut short", "as received", "adapted"],
        rows,
    )
    claims = memrl_claims(ran) + regime_claims(ran, regime, at_the_desk("memrl-fig-1", request, _SEEDS))
    pictures = [*maps, Picture(_rewards(ran), _CAPTION)]
    return Findings(claims, pictures, [table], [ran.folder, regime.folder], ran.seconds + regime.seconds)


def _row(ran: FinishedTrial, label: str) -> list[str]:
    line = ran.experiment.lines[ran.labels.index(label)]
    lambda_ = line.objective.get("lambda") if isinstance(line, NamedAlgorithm) else None
    cut = [value for cell in ran.of(label) for value in _capped(cell)] if lambda_ else []
    told = [f"{lambda_:g}" if lambda_ else "", f"{np.mean(cut):.0%}" if cut else ""]
    return [label, *told, *(_told(shares(ran, label, column)) for column in ("0", "own"))]


_CAPTION = "Reward of each task's adapted policy (solid) and of the common one (dotted); grey: the shortest ways."


def _rewards(ran: FinishedTrial) -> go.Figure:
    cells = ran.of("memrl")
    tasks = sorted(cells[0].points[0].clients)
    titles = [f"task {task}" for task in tasks]
    figure = make_subplots(cols=len(tasks), shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.02)
    times = [point.time for point in cells[0].points]
    for place, task in enumerate(tasks, start=1):
        for column, dash in (("own", "solid"), ("0", "dot")):
            line = {"color": style(place - 1)["color"], "dash": dash}
            middle = np.mean([_rewards_of(cell, task, column) for cell in cells], axis=0)
            figure.add_scatter(x=times, y=middle, mode="lines", line=line, showlegend=False, row=1, col=place)
        best = [scores[task] for scores in ran.referred("best", "reward")]
        figure.add_hline(float(np.mean(best)), line={"color": GREY}, col=place)
    labelled(figure, "Reward of each task over iterations, mean over seeds", "", "reward")
    return figure.update_xaxes(title="iteration")


def _rewards_of(cell: CellRecord, task: int, column: str) -> list[float]:
    return [point.clients[task][column] for point in cell.points]


def _told(values: np.ndarray) -> str:
    return f"{values.mean():.3f}, worst {values.min():.3f}"


FIG_1 = Exhibit(
    "memrl-fig-1",
    "MEMRL, Fig. 1",
    "Where policies go before and after training, and the reward of each task's adapted policy.",
    RUN.scales(),
    _perform,
)
