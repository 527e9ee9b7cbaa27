"""The seminar's search ranking: users with tastes of their own."""

from idiolect.experiments.value import Experiment
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.experiment_changes import changed, chosen, keeping
from idiolect.papers.figures import bars
from idiolect.papers.findings import FoundOut, at_the_desk
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above_all, spread
from idiolect.report.page import Picture

_SEEDS = (0, 1, 2, 3, 4)
_FULL = "the seminar's own: 200 users, 30 to 100 queries, lists of 2 to 25; its data is private, these are generated"
_FOUR = ("local", "fedasync", "persa_fl_maml", "persa_fl_me")


def _tiny(experiment: Experiment) -> Experiment:
    smaller = experiment.replace(
        problem=chosen(experiment.problem, clients=6, queries=[8, 12], suggestions=[2, 4], dimension=3, hidden=[4]),
        horizon=20.0,
        training=changed(experiment.training, local_steps=3),
        evaluation=changed(experiment.evaluation, times=[20.0], steps=[0, 2], batch_size=4),
    )
    return keeping(smaller, _FOUR)


RUN = Trial(
    "ranking",
    {
        "quick": Size("6 users, 8 to 12 queries, without FedAvg", (0, 1), "ranking", _tiny),
        "desk": Size(_FULL, _SEEDS, "ranking"),
        "paper": Size(_FULL, _SEEDS, "ranking"),
    },
)
_OURS = {"persa_fl_me": "PersA-FL-ME", "persa_fl_maml": "PersA-FL-MAML"}
_RIVALS = ("local", "fedavg", "fedasync")
_FORESTS = ("forest", "own_forest")


def ranking_claims(ran: FinishedTrial, found: FoundOut) -> list[Claim]:
    """Both methods above what learns from the same messages, and above forests, in both metrics."""
    metrics = [ran.cells[0].metric, *ran.cells[0].also]
    claims = []
    for metric in metrics:
        rivals = {label: ran.scores(label, "own", metric) for label in _RIVALS if label in ran.labels}
        forests = {name: ran.reference(name, metric) for name in _FORESTS}
        for label, name in _OURS.items():
            mine = ran.scores(label, "own", metric)
            claims += [
                above_all(
                    f"{metric}: {name} is above the local and the global models (FedAvg, FedAsync)",
                    mine,
                    rivals,
                    ran.seeds,
                    paper="above them in the figure",
                    finding=found(label),
                ),
                above_all(
                    f"{metric}: {name} is above random forests (one for all users, one for each)",
                    mine,
                    forests,
                    ran.seeds,
                    paper="the classic model",
                    finding=found("forests"),
                ),
            ]
    return claims


def _perform(request: Request) -> Findings:
    ran = carry_out(RUN, request)
    metrics = [ran.cells[0].metric, *ran.cells[0].also]
    scores = {
        **{label: [ran.scores(label, "own", metric) for metric in metrics] for label in ran.labels},
        **{f"{name} (reference)": [ran.reference(name, metric) for metric in metrics] for name in _FORESTS},
    }
    figure = bars(metrics, scores, "Search ranking at the end", "", "score")
    caption = (
        "Mean over users of their own test queries and over seeds; bars: standard deviation over seeds. Everyone as "
        "they are: the shared model, each user's own, or a forest; PersA-FL after the step or prox it prescribes."
    )
    rows = [[label, *map(spread, values)] for label, values in scores.items()]
    table = Table("All methods, mean ± standard deviation over seeds", ["method", *metrics], rows)
    claims = ranking_claims(ran, at_the_desk("search-ranking", request, _SEEDS))
    return Findings(claims, [Picture(figure, caption)], [table], [ran.folder], ran.seconds)


SEARCH = Exhibit(
    "search-ranking",
    "Seminar, search ranking",
    "Top-1 accuracy and normalized reciprocal rank of personalized, global and local rankers.",
    RUN.scales(),
    _perform,
)
