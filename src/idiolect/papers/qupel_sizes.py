"""QuPeL's runs at every scale."""

from idiolect.papers.trials import Size, Trial

SEEDS = (0, 1, 2)
ALONE_SEEDS = (3, 4, 5)  # of Table 1, whose settings were chosen with a view of the others
_WIDTHS = ("3", "2_75", "2_5", "2_25", "2")

# Sec. 7.2: SGD, eta1 = 0.1 with weight decay 1e-4 and 0.99 an epoch, batches of 50, tau = 10, 350 epochs, rounded for
# good after 300; eta2 = 1e-4, a tenth from epochs 120 and 180; lambda(t) = 1e-6 t, lambda_p = 0.025, eta3 = 5.5. With
# 2,500 training images a client an epoch has 50 steps. What its five layers are it does not say.
_EPOCH = 50
_WHOLE = (
    'problem={name="cifar10",clients=20,model={name="cnn",channels=[32,64],kernel=5,hidden=[256,64]},'
    'partition={name="by_classes",classes=4},shares={train=0.8334,adapt=0.005,validation=0.005}}',
    f"horizon={350 * _EPOCH // 10}",
    "training.local_steps=10",
    "training.batch_size=50",
    "training.step_size=5.5",
    "evaluation.points=20",
)


def _trained(label: str, *, rounded: bool, together: bool) -> tuple[str, ...]:
    """The paper's rates for one algorithm."""
    settings = {
        "step_size": f"{{value=0.1,decay=0.99,every={_EPOCH}}}",
        "momentum": "0.0",
        "weight_decay": "1e-4",
        **({"lambda_p": "0.025"} if together else {}),
    }
    if rounded:
        settings |= {
            "lambda": f"{{growth=1e-6,every={_EPOCH}}}",
            "centers_step_size": f"{{value=1e-4,at=[{120 * _EPOCH},{180 * _EPOCH}]}}",
            "fine_tune_after": str(300 * _EPOCH),
        }
    return tuple(f"algorithms.{label}.objective.{name}={value}" for name, value in settings.items())


_PAPER_TABLE_2 = (
    *_WHOLE,
    *_trained("local-32", rounded=False, together=False),
    *_trained("qupel-32", rounded=False, together=True),
    *(setting for width in _WIDTHS for setting in _trained(f"local-{width}", rounded=True, together=False)),
    *(setting for width in _WIDTHS for setting in _trained(f"qupel-{width}", rounded=True, together=True)),
)
_PAPER_TABLE_3 = (
    *_WHOLE,
    *(setting for bits in (2, 3, 32) for setting in _trained(f"beside-{bits}", rounded=True, together=True)),
)


def _tiny(clients: int, partition: str, model: str) -> tuple[str, ...]:
    return (
        f'problem={{name="digits",clients={clients},model={{name="mlp",hidden={model}}},partition={partition}}}',
        "horizon=4",
        "training.local_steps=3",
        "training.batch_size=8",
        "evaluation.points=1",
    )


_SKEWED = '{name="by_classes",classes=4}'
ALONE = Trial(
    "quantize-cifar10",
    {
        "quick": Size(
            "digits, a small MLP, 12 steps, four methods",
            (0, 1),
            "quantize-cifar10",
            _tiny(1, '{name="iid"}', "[8,8]"),
            ("full-precision", "post-training-1", "proxquant-1", "learned-1"),
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
            _tiny(6, _SKEWED, "[8,8]"),
            ("fedavg", "local-32", "qupel-32", "local-3", "qupel-3"),
        ),
        "desk": Size("8,000 of CIFAR-10's images, 20 clients, a small CNN, 450 steps", SEEDS, "qupel-cifar10"),
        "paper": Size("all of CIFAR-10, 20 clients, a CNN, 350 epochs", SEEDS, "qupel-cifar10", _PAPER_TABLE_2),
    },
)
RESOURCES = Trial(
    "qupel-resources",
    {
        "quick": Size(
            "digits, 20 clients, a small MLP, 12 steps", (0, 1), "qupel-resources", _tiny(20, _SKEWED, "[8,8]")
        ),
        "desk": Size("8,000 of CIFAR-10's images, 20 clients, a small CNN, 450 steps", SEEDS, "qupel-resources"),
        "paper": Size("all of CIFAR-10, 20 clients, a CNN, 350 epochs", SEEDS, "qupel-resources", _PAPER_TABLE_3),
    },
)
