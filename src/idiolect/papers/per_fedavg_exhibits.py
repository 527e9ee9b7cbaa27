"""Per-FedAvg, Fig. 1: FedAvg with and without a step at test time against Per-FedAvg.

The figure has the paper's settings, one step size for both. What is left of it where each method has its own, chosen by
as many trials, is asked in an exhibit of its own.
"""

from functools import partial

from idiolect.experiments.value import Experiment
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request
from idiolect.papers.experiment_changes import changed, keeping
from idiolect.papers.figures import bars
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above
from idiolect.registry import Choice
from idiolect.report.page import Picture

_SEEDS = (3, 4, 5, 6, 7)
_FRESH = tuple(range(20, 28))  # as in the recipe with settings of each method's own
_POINT = 0.01  # the smallest advantage that would matter, stated before the runs: one point of accuracy
_FULL = "the paper's own: MNIST, 10 clients, MLP 80-60, 1000 rounds, two tau and two r"
_TUNED = "as Fig. 1, for two of its four settings, every method with step sizes of its own"
_FOUR = ("fedavg-tau4-half", "per_fedavg-tau4-half", "fedavg-tau10-all", "per_fedavg-tau10-all")


def _tiny(experiment: Experiment) -> Experiment:
    smaller = experiment.replace(
        problem=Choice("digits", {"clients": 4, "model": "linear", "partition": Choice("two_worlds", {"a": 20})}),
        horizon=30.0,
        training=changed(experiment.training, batch_size=10, step_size=0.01),
        evaluation=changed(experiment.evaluation, batch_size=10, points=2),
    )
    return keeping(smaller, _FOUR)


RUN = Trial(
    "perfedavg-mnist",
    {
        "quick": Size("digits, 4 clients, 30 rounds, two settings", (0, 1), "perfedavg-mnist", _tiny),
        "desk": Size(_FULL, _SEEDS, "perfedavg-mnist"),
        "paper": Size(_FULL, _SEEDS, "perfedavg-mnist"),
    },
)
TUNED = Trial(
    "perfedavg-mnist-tuned",
    {
        "quick": Size("digits, 4 clients, 30 rounds, two settings", (0, 1), "perfedavg-mnist-tuned", _tiny),
        "desk": Size(_TUNED, _FRESH, "perfedavg-mnist-tuned"),
        "paper": Size(_TUNED, _FRESH, "perfedavg-mnist-tuned"),
    },
)
_SETTINGS = {
    "tau4-half": "tau = 4, r = 0.5",
    "tau4-all": "tau = 4, r = 1",
    "tau10-half": "tau = 10, r = 0.5",
    "tau10-all": "tau = 10, r = 1",
}


def _claims(ran: FinishedTrial, size: float | None, setting: str, words: str) -> list[Claim]:
    plain, stepped = ran.scores(f"fedavg-{setting}", "0"), ran.scores(f"fedavg-{setting}", "1")
    meta = ran.scores(f"per_fedavg-{setting}", "1")
    claim = partial(above, seeds=ran.seeds, paper="above it in the figure", size=size)
    return [
        claim(f"{words}: FedAvg after one step is above FedAvg", stepped, plain),
        claim(f"{words}: Per-FedAvg after one step is above FedAvg after one step", meta, stepped),
    ]


def _perform(trial: Trial, size: float | None, request: Request) -> Findings:
    ran = carry_out(trial, request)
    settings = {setting: words for setting, words in _SETTINGS.items() if f"fedavg-{setting}" in ran.labels}
    claims = [claim for setting, words in settings.items() for claim in _claims(ran, size, setting, words)]
    series = {
        "FedAvg": [ran.scores(f"fedavg-{setting}", "0") for setting in settings],
        "FedAvg + 1 step": [ran.scores(f"fedavg-{setting}", "1") for setting in settings],
        "Per-FedAvg + 1 step": [ran.scores(f"per_fedavg-{setting}", "1") for setting in settings],
    }
    title = "Accuracy at the end, by local steps tau and share r of active clients"
    figure = bars(list(settings.values()), series, title, "", "accuracy")
    caption = (
        "Accuracy on each client's test images, mean over clients and seeds; bars: standard deviation over seeds. "
        "The step is taken on the client's adaptation images, never on those that are scored."
    )
    return Findings(claims, [Picture(figure, caption)], runs=[ran.folder], seconds=ran.seconds)


FIG_1 = Exhibit(
    "per-fedavg-fig-1",
    "Per-FedAvg, Fig. 1",
    "Accuracy of FedAvg, of FedAvg after one step and of Per-FedAvg after one step.",
    RUN.scales(),
    partial(_perform, RUN, None),
)
FIG_1_SETTINGS = Exhibit(
    "per-fedavg-fig-1-settings",
    "Per-FedAvg, Fig. 1, settings",
    "What is left of Fig. 1 where FedAvg and Per-FedAvg each have step sizes of their own.",
    TUNED.scales(),
    partial(_perform, TUNED, _POINT),
)
