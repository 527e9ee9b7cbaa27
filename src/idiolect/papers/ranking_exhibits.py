"""The seminar's search ranking: users with tastes of their own."""

from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.figures import bars, known_here
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above_all, spread
from idiolect.report.page import Picture

_SEEDS = (0, 1, 2, 3, 4)
_FULL = "the seminar's own: 200 users, 30 to 100 queries, lists of 2 to 25; its data is private, these are generated"
_TINY = (
    "problem.clients=6",
    "problem.queries=[8,12]",
    "problem.suggestions=[2,4]",
    "problem.dimension=3",
    "problem.hidden=[4]",
    "horizon=20",
    "evaluation.times=[20.0]",
    "evaluation.steps=[0,2]",
    "evaluation.batch_size=4",
    "training.local_steps=3",
)
_FOUR = ("local", "fedasync", "persa_fl_maml", "persa_fl_me")
RUN = Trial(
    "ranking",
    {
        "quick": Size("6 users, 8 to 12 queries, without FedAvg", (0, 1), "ranking", _TINY, _FOUR),
        "desk": Size(_FULL, _SEEDS, "ranking"),
        "paper": Size(_FULL, _SEEDS, "ranking"),
    },
)
_OURS = {"persa_fl_me": "PersA-FL-ME", "persa_fl_maml": "PersA-FL-MAML"}
_RIVALS = ("local", "fedavg", "fedasync")
_FORESTS = ("forest", "own_forest")

_ENVELOPE = (
    "The Moreau envelope is above its rivals on average, but not in every seed: one of five has FedAsync ahead, and "
    "five seeds leave the smallest of the three differences within chance."
)
_FOREST = (
    "The forest that sees all users' queries, which no federated method does, is the strongest rival: the means have "
    "this order, but the difference is within the spread over seeds."
)


def ranking_claims(ran: FinishedTrial, envelope: str, forest: str) -> list[Claim]:
    """Both methods above what learns from the same messages, and above forests, in both metrics."""
    metrics = [ran.cells[0]["metric"], *ran.cells[0]["also"]]
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
                    finding=envelope if label == "persa_fl_me" else "",
                ),
                above_all(
                    f"{metric}: {name} is above random forests (one for all users, one for each)",
                    mine,
                    forests,
                    ran.seeds,
                    paper="the classic model",
                    finding=forest,
                ),
            ]
    return claims


def _perform(request: Request) -> Findings:
    ran = carry_out(RUN, request)
    metrics = [ran.cells[0]["metric"], *ran.cells[0]["also"]]
    found = {
        **{label: [ran.scores(label, "own", metric) for metric in metrics] for label in ran.labels},
        **{f"{name} (reference)": [ran.reference(name, metric) for metric in metrics] for name in _FORESTS},
    }
    figure = bars(metrics, found, "Search ranking at the end", "", "score")
    caption = (
        "Mean over users of their own test queries and over seeds; bars: standard deviation over seeds. Everyone as "
        "they are: the shared model, each user's own, or a forest; PersA-FL after the step or prox it prescribes."
    )
    rows = [[label, *(spread(values) for values in scores)] for label, scores in found.items()]
    table = Table("All methods, mean ± standard deviation over seeds", ["method", *metrics], rows)
    claims = ranking_claims(ran, *(known_here(request, _SEEDS, text) for text in (_ENVELOPE, _FOREST)))
    return Findings(claims, [Picture(figure, caption)], [table], [ran.folder], ran.seconds)


SEARCH = Exhibit(
    "search-ranking",
    "Seminar, search ranking",
    "Top-1 accuracy and normalized reciprocal rank of personalized, global and local rankers.",
    RUN.scales(),
    _perform,
)
