"""What PFLlib publishes for the same partitions, and what is different there.

J. Zhang, Y. Liu, Y. Hua, H. Wang, T. Song, Z. Xue, R. Ma, J. Cao. PFLlib: a beginner-friendly and comprehensive
personalized federated learning library and benchmark. Journal of Machine Learning Research 26(50), 2025. The numbers
are those of its benchmark page, docs/benchmark.html of the repository TsingZ0/PFLlib at commit 8afdf11, first table,
columns FMNIST: test accuracy in percent, mean and standard deviation. It has no MNIST and no CIFAR-10 there.
"""

SOURCE = (
    "PFLlib's benchmark page (pfllib.com/benchmark.html, repository TsingZ0/PFLlib, docs/benchmark.html at 8afdf11)"
)
DIFFERS = (
    "Its numbers are the best round of a run and not the last ones, of 20 clients that all take part and of whom none "
    "is unseen, with a four-layer CNN, batches of 10, one local epoch a round and 2,000 rounds, on all 70,000 images, "
    "three quarters of which are for training; sizes of clients vary where each holds two classes. Its standard "
    "deviation is over three trials. The page does not say how settings were chosen."
)
NONE = "PFLlib's page has Fashion-MNIST of these data sets, and no numbers for digits, MNIST or CIFAR-10."

# problem -> the name here -> (percent, standard deviation)
PFLLIB: dict[str, dict[str, tuple[float, float]]] = {
    "fashion-classes": {
        "fedavg": (80.41, 0.08),
        "fedprox": (78.08, 0.15),
        "per_fedavg": (99.18, 0.08),
        "pfedme": (99.35, 0.14),
        "ditto": (99.44, 0.06),
        "apfl": (99.41, 0.02),
        "fedper": (99.47, 0.03),
        "fedrep": (99.56, 0.03),
        "fedbabu": (99.41, 0.05),
    },
    "fashion-dirichlet-0.1": {
        "fedavg": (85.85, 0.19),
        "fedprox": (85.63, 0.57),
        "per_fedavg": (95.10, 0.10),
        "pfedme": (97.25, 0.17),
        "ditto": (97.47, 0.04),
        "apfl": (97.25, 0.08),
        "fedper": (97.44, 0.06),
        "fedrep": (97.56, 0.04),
        "fedbabu": (97.46, 0.07),
    },
}


def pfllib(problem: str, name: str) -> str:
    """Its number as text; empty where it has none."""
    found = PFLLIB.get(problem, {}).get(name)
    return "" if found is None else f"{found[0]:.2f} ± {found[1]:.2f}"
