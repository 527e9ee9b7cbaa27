"""QuPeL's runs at every scale."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from idiolect.experiments.value import Experiment
from idiolect.papers.experiment_changes import changed, keeping, with_options
from idiolect.papers.trials import Size, Trial
from idiolect.registry import Choice

SEEDS = (0, 1, 2)
ALONE_SEEDS = (3, 4, 5)  # of Table 1, whose settings were chosen with a view of the others
_WIDTHS = ("3", "2_75", "2_5", "2_25", "2")
_SKEWED = Choice("by_classes", {"classes": 4})

# Sec. 7.2: SGD, eta1 = 0.1 with weight decay 1e-4 and 0.99 an epoch, batches of 50, tau = 10, 350 epochs, rounded for
# good after 300; eta2 = 1e-4, a tenth from epochs 120 and 180; lambda(t) = 1e-6 t, lambda_p = 0.025, eta3 = 5.5. With
# 2,500 training images a client an epoch has 50 steps. What its five layers are it does not say.
_EPOCH = 50
_DESCENT = {
    "step_size": {"value": 0.1, "decay": 0.99, "every": _EPOCH},
    "momentum": 0.0,
    "weight_decay": 1e-4,
}
_ROUNDING = {
    "lambda": {"growth": 1e-6, "every": _EPOCH},
    "centers_step_size": {"value": 1e-4, "at": [120 * _EPOCH, 180 * _EPOCH]},
    "fine_tune_after": 300 * _EPOCH,
}
_SHARING = {"lambda_p": 0.025}


def _whole(experiment: Experiment) -> Experiment:
    model = Choice("cnn", {"channels": [32, 64], "kernel": 5, "hidden": [256, 64]})
    shares = {"train": 0.8334, "adapt": 0.005, "validation": 0.005}
    return experiment.replace(
        problem=Choice("cifar10", {"clients": 20, "model": model, "partition": _SKEWED, "shares": shares}),
        horizon=350 * _EPOCH / 10,
        training=changed(experiment.training, local_steps=10, batch_size=50, step_size=5.5),
        evaluation=changed(experiment.evaluation, points=20),
    )


def _paper_table_2(experiment: Experiment) -> Experiment:
    rates: dict[str, dict[str, Any]] = {
        "local-32": _DESCENT,
        "qupel-32": {**_DESCENT, **_SHARING},
        **{f"local-{width}": {**_DESCENT, **_ROUNDING} for width in _WIDTHS},
        **{f"qupel-{width}": {**_DESCENT, **_SHARING, **_ROUNDING} for width in _WIDTHS},
    }
    larger = _whole(experiment)
    for label, options in rates.items():
        larger = with_options(larger, label, objective=options)
    return larger


def _paper_table_3(experiment: Experiment) -> Experiment:
    labels = (f"beside-{bits}" for bits in (2, 3, 32))
    return with_options(_whole(experiment), *labels, objective={**_DESCENT, **_SHARING, **_ROUNDING})


def _tiny(clients: int, partition: Choice, only: Sequence[str], experiment: Experiment) -> Experiment:
    model = Choice("mlp", {"hidden": [8, 8]})
    smaller = experiment.replace(
        problem=Choice("digits", {"clients": clients, "model": model, "partition": partition}),
        horizon=4.0,
        training=changed(experiment.training, local_steps=3, batch_size=8),
        evaluation=changed(experiment.evaluation, points=1),
    )
    return keeping(smaller, only)


ALONE = Trial(
    "quantize-cifar10",
    {
        "quick": Size(
            "digits, a small MLP, 12 steps, four methods",
            (0, 1),
            "quantize-cifar10",
            partial(_tiny, 1, Choice("iid"), ("full-precision", "post-training-1", "proxquant-1", "learned-1")),
        ),
        "desk": Size("6,000 of CIFAR-10's images, ResNet-8, 600 steps", ALONE_SEEDS, "quantize-cifar10"),
        "paper": Size("all of CIFAR-10, ResNet-20, 300 epochs", SEEDS, "quantize-cifar10-full"),
    },
)
TOGETHER = Trial(
    "qupel-cifar10",
    {
        "quick": Size(
            "digits, 6 clients, a small MLP, 12 steps, two widths",
            (0, 1),
            "qupel-cifar10",
            partial(_tiny, 6, _SKEWED, ("fedavg", "local-32", "qupel-32", "local-3", "qupel-3")),
        ),
        "desk": Size("8,000 of CIFAR-10's images, 20 clients, a small CNN, 450 steps", SEEDS, "qupel-cifar10"),
        "paper": Size("all of CIFAR-10, 20 clients, a CNN, 350 epochs", SEEDS, "qupel-cifar10", _paper_table_2),
    },
)
RESOURCES = Trial(
    "qupel-resources",
    {
        "quick": Size(
            "digits, 20 clients, a small MLP, 12 steps",
            (0, 1),
            "qupel-resources",
            partial(_tiny, 20, _SKEWED, ("beside-2", "beside-3", "beside-32")),
        ),
        "desk": Size("8,000 of CIFAR-10's images, 20 clients, a small CNN, 450 steps", SEEDS, "qupel-resources"),
        "paper": Size("all of CIFAR-10, 20 clients, a CNN, 350 epochs", SEEDS, "qupel-resources", _paper_table_3),
    },
)
