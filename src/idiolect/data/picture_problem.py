"""Image classification where the data says who holds which image."""

import numpy as np

from idiolect.contracts import Problem
from idiolect.data.columns import Columns
from idiolect.data.ownership import Hands, Ownership, dealt
from idiolect.problems.data.client_splits import Shares
from idiolect.problems.data.datasets import Images
from idiolect.problems.data.input_scaling import Normalize
from idiolect.problems.images import Augmentation, classification
from idiolect.problems.models.networks import Model


def picture_problem(
    name: str,
    images: Images,
    columns: Columns,
    how: Ownership,
    model: Model,
    *,
    unseen: float,
    shares: Shares,
    augmentation: Augmentation | None = None,
    normalize: Normalize | None = None,
    notes: tuple[str, ...] = (),
    seed: int,
) -> Problem:
    """The problem of `classification`, with clients as `how` says, by the names that the data has for them."""
    seen = list[Hands]()

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        seen.append(dealt(columns, how, labels, rng, "images"))
        return seen[0].rows

    whole = classification(
        name,
        images,
        model,
        deal,
        clients=0,
        unseen=unseen,
        shares=shares,
        augmentation=augmentation,
        normalize=normalize,
        seed=seed,
    )
    told = tuple(f"{name}: {note}" for note in (*seen[0].notes, *notes))
    return whole._replace(clients=whole.clients._replace(names=seen[0].names), notes=told)
