"""Which problems the leaderboard has, and how large each of its three scales is."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.experiments.recipe_tables import Evaluation, Training
from idiolect.network.unreliable_links import Links
from idiolect.options import known
from idiolect.problems.data.datasets import is_here
from idiolect.problems.data.partitions import by_classes, dirichlet
from idiolect.registry import Choice

DATA = {"digits": "digits", "mnist": "mnist", "fashion": "fashion_mnist", "cifar10": "cifar10"}
DEALS: dict[str, Mapping[str, Any]] = {
    "classes": {"name": by_classes.__name__, "classes": 2},
    "dirichlet-0.1": {"name": dirichlet.__name__, "a": 0.1},
    "dirichlet-0.5": {"name": dirichlet.__name__, "a": 0.5},
}
PROBLEMS = {f"{data}-{deal}": (data, deal) for data in DATA for deal in DEALS}

# A client's data: half of it to learn from, and enough of the rest that settings are not chosen on three samples.
_SHARES = {"train": 0.5, "adapt": 0.15, "validation": 0.15}
_TINY = {"name": "mlp", "hidden": [16, 16]}  # quantized models keep the first and the last layer as they are
_SMALL = {"name": "mlp", "hidden": [32, 32]}
_MLP = {"name": "mlp", "hidden": [128, 128]}
_CNN = {"name": "cnn"}

TRAINING = Training(step_size=0.1, batch_size=16)
COMMON_STEPS = 10  # of the adaptation that every model gets alike, beside its own
EVALUATION = Evaluation(last=3, steps=[0, COMMON_STEPS], step_size=0.05, batch_size=16, headline="own")
SHARES_OF_BUDGET = (0.9, 0.95, 1.0)  # when a run is scored: the mean of the three counts, no round is picked
TOPOLOGY = Choice("random_regular", {"degree": 4})
LINKS = Links(loss=0.0)  # with a server nothing is lost, either
TUNING_SEEDS = (9001, 9002, 9003)  # of which a scale takes the first few; none of them is scored


class Scale(NamedTuple):
    """How large the leaderboard is: what is run, and for how long."""

    problems: Sequence[str]
    trials: int  # for every algorithm alike, on every problem
    tuning_seeds: Sequence[int]
    seeds: Sequence[int]  # that are scored
    evaluations: int  # gradients for each client that takes part, on average; they have them together
    time: float  # virtual
    options: Mapping[str, Mapping[str, Any]]  # of the problem, by its data
    note: str = ""  # what else whoever judges the comparison should know


_QUICK = {"clients": 10, "unseen": 0.2}
_DESK = {"clients": 20, "unseen": 0.2}
_PAPER = {"clients": 25, "unseen": 0.2}

SCALES = {
    "quick": Scale(
        ["digits-dirichlet-0.1"],
        trials=2,
        tuning_seeds=TUNING_SEEDS[:1],
        seeds=(0, 1),
        evaluations=200,
        time=200.0,
        options={
            "digits": {**_QUICK, "samples": 600, "model": _TINY},
            "mnist": {**_QUICK, "samples": 600, "model": _TINY},
            "fashion": {**_QUICK, "samples": 600, "model": _TINY},
            "cifar10": {**_QUICK, "samples": 600, "model": _TINY},
        },
    ),
    "desk": Scale(
        [
            "digits-classes",
            "digits-dirichlet-0.1",
            "digits-dirichlet-0.5",
            "mnist-dirichlet-0.1",
            "fashion-dirichlet-0.1",
        ],
        trials=8,
        tuning_seeds=TUNING_SEEDS[:1],
        seeds=tuple(range(10, 20)),  # 0 and 1 were looked at while the ranges were made
        evaluations=1000,
        time=1000.0,
        options={
            "digits": {**_DESK, "model": _SMALL},
            "mnist": {**_DESK, "samples": 4000, "model": _SMALL},
            "fashion": {**_DESK, "samples": 4000, "model": _SMALL},
            "cifar10": {**_DESK, "samples": 4000, "model": _CNN},
        },
        note="Seeds 10 to 14 were scored first and looked at; since they told few apart, as many were added.",
    ),
    "paper": Scale(
        list(PROBLEMS),
        trials=30,
        tuning_seeds=TUNING_SEEDS,
        seeds=tuple(range(10, 20)),
        evaluations=20_000,
        time=20_000.0,
        options={
            "digits": {**_PAPER, "model": _MLP},
            "mnist": {**_PAPER, "model": _MLP},
            "fashion": {**_PAPER, "model": _CNN},
            "cifar10": {**_PAPER, "model": _CNN},
        },
    ),
}


def find_scale(name: str) -> Scale:
    """A scale by its name."""
    known(SCALES, "--scale", name)
    return SCALES[name]


def problem_choice(name: str, scale: Scale) -> Choice:
    """A problem of the leaderboard, as large as a scale has it."""
    data, deal = PROBLEMS[name]
    options = {**scale.options[data], "partition": dict(DEALS[deal]), "shares": _SHARES}
    return Choice(DATA[data], options)


def total_evaluations(scale: Scale, participating: int) -> int:
    """The gradients that all clients together may take."""
    return scale.evaluations * participating


def chosen_problems(scale: Scale, patterns: Sequence[str] | None, data_dir: Path | None) -> tuple[list[str], list[str]]:
    """The problems to run, and sentences on those of the scale whose files are not here; named ones must be."""
    missing = [name for name in PROBLEMS if not is_here(DATA[PROBLEMS[name][0]], data_dir)]
    if patterns is None:
        told = [f"{name} is left out: the files of {DATA[PROBLEMS[name][0]]} are not here" for name in missing]
        left = [sentence for name, sentence in zip(missing, told, strict=True) if name in scale.problems]
        return [name for name in scale.problems if name not in missing], left
    chosen = matching(PROBLEMS, patterns, "--problems")
    for name in chosen:
        if name in missing:
            raise UserMistake(
                f"--problems has {name}, but the files of {DATA[PROBLEMS[name][0]]} are not here; name their folder "
                "with --data-dir"
            )
    return chosen, []


def matching(names: Mapping[str, Any] | Sequence[str], patterns: Sequence[str], what: str) -> list[str]:
    """The names that any pattern fits, in their own order; a pattern that fits none is refused."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            known(names, what, pattern)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
