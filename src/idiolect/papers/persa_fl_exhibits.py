"""PersA-FL, Fig. 2b and 2c: eight methods within a fixed virtual time, on MNIST and CIFAR-10."""

from collections.abc import Mapping
from functools import partial

from idiolect.papers.exhibit import Exhibit, Findings, Request, Table
from idiolect.papers.figures import curves, known_here
from idiolect.papers.trials import FinishedTrial, Size, Trial, carry_out
from idiolect.papers.verdicts import above_all, spread, steadier
from idiolect.report.page import Picture

_MNIST_SEEDS, _CIFAR_SEEDS = (3, 4, 5, 6, 7), (0, 1, 2)  # as in the recipes
_OURS = {"persa_fl_me": "PersA-FL-ME", "persa_fl_maml": "PersA-FL-MAML"}
_FOUR = ("fedavg", "fedasync", "persa_fl_maml", "persa_fl_me")
_SHARES = "shares={train=0.6,adapt=0.15,validation=0.05}"


def _tiny(classes: int) -> tuple[str, ...]:
    return (
        f'problem={{name="digits",clients=5,model={{name="linear"}},{_SHARES},'
        f'partition={{name="by_classes",classes={classes}}}}}',
        "horizon=20",
        "evaluation.points=2",
        "evaluation.steps=[0,1]",
        "training.local_steps=3",
        "training.batch_size=8",
        "evaluation.batch_size=8",
    )


def _whole(data: str, classes: int, model: str) -> tuple[str, ...]:
    """Every image, and a time at which the slowest methods have come somewhere too."""
    partition = f'partition={{name="by_classes",classes={classes}}}'
    return (
        f'problem={{name="{data}",clients=30,model={{{model},dropout=0.25}},{partition},{_SHARES}}}',
        "horizon=150",
        "evaluation.points=20",
    )


_BOLD = tuple(f"algorithms.{label}.protocol.beta=0.8" for label in ("fedasync", "persa_fl_maml", "persa_fl_me"))
_DEEP = 'name="cnn",channels=[16,32,64],kernel=3,hidden=[128,64]'
MNIST = Trial(
    "persafl-mnist",
    {
        "quick": Size("digits, 5 clients, time 20, four methods", (0, 1), "persafl-mnist", _tiny(5), _FOUR),
        "desk": Size(
            "15,000 of MNIST's images, 30 clients, CNN with 2 + 2 layers, time 60", _MNIST_SEEDS, "persafl-mnist"
        ),
        "paper": Size(
            "all of MNIST, 30 clients, CNN with 2 + 2 layers, time 150",
            _MNIST_SEEDS,
            "persafl-mnist",
            _whole("mnist", 5, 'name="cnn",channels=[16,32],hidden=[128]'),
        ),
    },
)
CIFAR = Trial(
    "persafl-cifar10",
    {
        "quick": Size("digits, 5 clients, time 20, four methods", (0, 1), "persafl-cifar10", _tiny(3), _FOUR),
        "desk": Size(
            "15,000 of CIFAR-10's images, 30 clients, CNN with 3 + 3 layers, time 180", _CIFAR_SEEDS, "persafl-cifar10"
        ),
        "paper": Size(
            "all of CIFAR-10, 30 clients, CNN with 3 + 3 layers, time 150",
            _CIFAR_SEEDS,
            "persafl-cifar10",
            (*_whole("cifar10", 3, _DEEP), "training.step_size=0.01", *_BOLD),
        ),
    },
)


def _table(ran: FinishedTrial) -> Table:
    rows = [
        [label, spread(ran.scores(label, "0")), spread(ran.scores(label)), f"{_updates(ran, label):.0f}"]
        for label in ran.labels
    ]
    title = "All methods at the end, mean ± standard deviation over seeds"
    return Table(title, ["method", "as received", "personalized", "updates"], rows)


def _updates(ran: FinishedTrial, label: str) -> float:
    cells = ran.of(label)
    return float(sum(cell["points"][-1]["updates"] for cell in cells)) / len(cells)


def _perform(trial: Trial, data: str, findings: Mapping[str, str], request: Request) -> Findings:
    ran = carry_out(trial, request)
    known = partial(known_here, request, trial.sizes["desk"].seeds)
    rivals = {label: ran.scores(label) for label in ran.labels if label not in _OURS}
    claims = [
        above_all(
            f"Within the same time {name} is above each of the other methods on {data}",
            ran.scores(label),
            rivals,
            ran.seeds,
            paper="above them in the figure",
            finding=known(findings.get(label, "")),
        )
        for label, name in _OURS.items()
    ]
    claims.append(
        steadier(
            "The Moreau envelope is stabler than MAML",
            ran.scores("persa_fl_me"),
            ran.scores("persa_fl_maml"),
            ran.seeds,
            finding=known(findings.get("stable", "")),
        )
    )
    picture = Picture(curves(ran, f"Accuracy over virtual time, {data}"), _CAPTION)
    return Findings(claims, [picture], [_table(ran)], [ran.folder], ran.seconds)


_CAPTION = (
    "Accuracy on each client's test images after the same fine-tuning for every method, mean over clients; line and "
    "band: mean and standard deviation over seeds."
)
_ON_MNIST = {
    "persa_fl_maml": "It is ahead of FedAsync on three of five seeds, by 0.028 to 0.036, and behind by 0.012 and 0.013 "
    "on the others; of the five synchronous methods it is ahead by 0.26 or more, p = 0.001 or less for each.",
    "stable": "Its spread is the smaller one, but with five seeds the test asks for 2.5 times.",
}
_ON_CIFAR = {
    "persa_fl_me": "It is ahead of the five synchronous methods by 0.135 or more, p < 0.01 for each, and level with "
    "FedAsync, whose model is no better as received but is after the ten steps.",
    "persa_fl_maml": "On seeds 0 and 1 it gets lost: the model as received answers one class for everything, with "
    "logits in the hundreds and in the ten thousands (below 10 on seed 2), from where fine-tuning leads to 0.39 and "
    "0.33, and a third is chance for a client. On seed 2 it comes to 0.600, where FedAsync has 0.606.",
}

FIG_2B = Exhibit(
    "persa-fl-fig-2b",
    "PersA-FL, Fig. 2b",
    "Accuracy of eight methods over virtual time on MNIST with 5 digits a client.",
    MNIST.scales(),
    partial(_perform, MNIST, "MNIST", _ON_MNIST),
)
FIG_2C = Exhibit(
    "persa-fl-fig-2c",
    "PersA-FL, Fig. 2c",
    "Accuracy of eight methods over virtual time on CIFAR-10 with 3 classes a client.",
    CIFAR.scales(),
    partial(_perform, CIFAR, "CIFAR-10", _ON_CIFAR),
)
