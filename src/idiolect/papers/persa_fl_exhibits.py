"""PersA-FL, Fig. 2b and 2c: the figure's eight methods, and what the paper leaves out, within a fixed virtual time.

Every method has settings of its own, chosen by as many trials (the recipes say how). The figures' claims are about the
figures' methods; those that we add are asked about in claims of their own. In virtual time computing is free, and for
one of a plain client's gradients a Moreau client takes ten and a MAML client four. So Fig. 2c also has local training
and FedAsync with as many local steps as make a Moreau client's 100 gradients a turn, and MAML with 132 gradients.
"""

from functools import partial
from typing import NamedTuple

from idiolect.experiments.value import Experiment
from idiolect.papers.exhibit import Claim, Exhibit, Findings, Request, Table
from idiolect.papers.experiment_changes import changed, keeping
from idiolect.papers.figures import curves
from idiolect.papers.findings import FoundOut, at_the_desk
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above_all, spread
from idiolect.registry import Choice
from idiolect.report.page import Picture

_MNIST_SEEDS, _CIFAR_SEEDS = tuple(range(20, 28)), tuple(range(20, 28))  # as in the recipes
_OURS = {"persa_fl_me": "PersA-FL-ME", "persa_fl_maml": "PersA-FL-MAML"}
_POINT = 0.01  # the smallest advantage that would matter, stated before the runs: one point of accuracy
_FOUR = ("fedavg", "fedasync", "persa_fl_maml", "persa_fl_me")
_SHARES = {"train": 0.6, "adapt": 0.15, "validation": 0.05}


class _Comparison(NamedTuple):
    """Which of the paper's methods are held against whom, as far as a run has these, and how a claim says it."""

    statement: str
    ours: dict[str, str]
    rivals: tuple[str, ...]
    paper: str = "not in the figure"
    finding: str = ""  # what `findings.toml` calls it, after the method


_COMPARISONS = (
    _Comparison(
        "Within the same time {} is above each of the figure's other methods on {}",
        _OURS,
        ("fedavg", "fedprox", "scaffold", "per_fedavg", "pfedme", "fedasync"),
        "above them in the figure",
    ),
    _Comparison(
        "Within the same time {} is above each of local training and FedBuff on {}",
        _OURS,
        ("local", "fedbuff"),
        finding=" beyond",
    ),
    _Comparison(
        "Within the same time and with no fewer gradients {} is above each of local training and FedAsync on {}",
        {"persa_fl_me": "PersA-FL-ME", "persa_fl_maml-33": "PersA-FL-MAML"},
        ("local-100", "fedasync-100"),
        finding=" equal",
    ),
)


def _images(data: str, clients: int, classes: int, model: Choice) -> Choice:
    partition = Choice("by_classes", {"classes": classes})
    return Choice(data, {"clients": clients, "model": model, "partition": partition, "shares": _SHARES})


def _tiny(classes: int, experiment: Experiment) -> Experiment:
    smaller = experiment.replace(
        problem=_images("digits", 5, classes, Choice("linear")),
        horizon=20.0,
        training=changed(experiment.training, local_steps=3, batch_size=8),
        evaluation=changed(experiment.evaluation, times=None, points=2, last=1, steps=[0, 1], batch_size=8),
    )
    return keeping(smaller, _FOUR)


def _whole(problem: Choice, experiment: Experiment) -> Experiment:
    """Every image, and a time at which the slowest methods have come somewhere too."""
    evaluation = changed(experiment.evaluation, times=None, points=20)
    return experiment.replace(problem=problem, horizon=150.0, evaluation=evaluation)


def _whole_mnist(experiment: Experiment) -> Experiment:
    model = Choice("cnn", {"channels": [16, 32], "hidden": [128], "dropout": 0.25})
    return _whole(_images("mnist", 30, 5, model), experiment)


def _whole_cifar(experiment: Experiment) -> Experiment:
    model = Choice("cnn", {"channels": [16, 32, 64], "kernel": 3, "hidden": [128, 64], "dropout": 0.25})
    return _whole(_images("cifar10", 30, 3, model), experiment)


MNIST = Trial(
    "persafl-mnist",
    {
        "quick": Size("digits, 5 clients, time 20, four methods", (0, 1), "persafl-mnist", partial(_tiny, 5)),
        "desk": Size(
            "15,000 of MNIST's images, 30 clients, CNN with 2 + 2 layers, time 60", _MNIST_SEEDS, "persafl-mnist"
        ),
        "paper": Size(
            "all of MNIST, 30 clients, CNN with 2 + 2 layers, time 150",
            _MNIST_SEEDS,
            "persafl-mnist",
            _whole_mnist,
        ),
    },
)
CIFAR = Trial(
    "persafl-cifar10",
    {
        "quick": Size("digits, 5 clients, time 20, four methods", (0, 1), "persafl-cifar10", partial(_tiny, 3)),
        "desk": Size(
            "30,000 of CIFAR-10's images, 30 clients, CNN with 3 + 3 layers, time 180", _CIFAR_SEEDS, "persafl-cifar10"
        ),
        "paper": Size(
            "all of CIFAR-10, 30 clients, CNN with 3 + 3 layers, time 150",
            _CIFAR_SEEDS,
            "persafl-cifar10",
            _whole_cifar,
        ),
    },
)


def _table(ran: FinishedTrial) -> Table:
    rows = [
        [label, *(spread(ran.scores(label, column)) for column in ("0", None, "own")), *_counts(ran, label)]
        for label in ran.labels
    ]
    when = f"mean over the last {ran.experiment.evaluation.last} evaluations and the clients"
    title = f"All methods, {when}, ± standard deviation over seeds"
    return Table(
        title,
        ["method", "as received", "personalized", "by its own adaptation", "updates", "versions of the shared model"],
        rows,
    )


def _counts(ran: FinishedTrial, label: str) -> tuple[str, str]:
    cells = ran.of(label)
    updates = sum(cell.end.updates for cell in cells) / len(cells)
    return f"{updates:.0f}", f"{sum(cell.server_steps for cell in cells) / len(cells):.1f}"


def _compared(one: _Comparison, ran: FinishedTrial, data: str, found: FoundOut) -> list[Claim]:
    rivals = {label: ran.scores(label) for label in one.rivals if label in ran.labels}
    return [
        above_all(
            one.statement.format(name, data),
            ran.scores(label),
            rivals,
            ran.seeds,
            paper=one.paper,
            finding=found(f"{label}{one.finding}"),
            size=_POINT,
        )
        for label, name in one.ours.items()
        if rivals
    ]


def _perform(name: str, trial: Trial, data: str, request: Request) -> Findings:
    ran, found = carry_out(trial, request), at_the_desk(name, request, trial.sizes["desk"].seeds)
    claims = [claim for one in _COMPARISONS for claim in _compared(one, ran, data, found)]
    picture = Picture(curves(ran, f"Accuracy over virtual time, {data}"), _CAPTION)
    return Findings(claims, [picture], [_table(ran)], [ran.folder], ran.seconds)


_CAPTION = (
    "Accuracy on each client's test images after the same fine-tuning for every method, mean over clients; "
    "every method with the best of as many trials of its own settings. Line and band: mean and standard deviation over "
    "seeds."
)

FIG_2B = Exhibit(
    "persa-fl-fig-2b",
    "PersA-FL, Fig. 2b",
    "Accuracy of ten methods over virtual time on MNIST with 5 digits a client.",
    MNIST.scales(),
    partial(_perform, "persa-fl-fig-2b", MNIST, "MNIST"),
)
FIG_2C = Exhibit(
    "persa-fl-fig-2c",
    "PersA-FL, Fig. 2c",
    "Accuracy of ten methods, three of them also with more local steps, on CIFAR-10 with 3 classes a client.",
    CIFAR.scales(),
    partial(_perform, "persa-fl-fig-2c", CIFAR, "CIFAR-10"),
)
