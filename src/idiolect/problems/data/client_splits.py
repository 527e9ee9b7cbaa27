"""Every client's data: cut into parts that never overlap, laid client after client in one shared store.

One store for all parts keeps its shape the same whatever the seed, so that a program compiled for one seed runs on all.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Clients, PyTree, Split
from idiolect.errors import UserMistake
from idiolect.problems.data.given_data import checked_data, row_count

PARTS = ("train", "adapt", "validation", "test")
FEWEST = 3  # samples of a client


class Shares(NamedTuple):
    """How much of a client's data goes to each part; the rest is the test part.

    Args:
        train: To train on.
        adapt: To adapt on before scoring.
        validation: To choose by.

    Example:
        >>> from idiolect.problems.data import Shares
        >>> Shares(train=0.5, validation=0.0).adapt
        0.15
    """

    train: Annotated[float, Gt(0), Lt(1)] = 0.6
    adapt: Annotated[float, Gt(0), Lt(1)] = 0.15
    validation: Annotated[float, Ge(0), Lt(1)] = 0.05


def split_clients(
    data: Sequence[PyTree],
    *,
    shares: Shares = Shares(),
    unseen: float = 0.0,
    rng: np.random.Generator,
) -> Clients:
    """Shuffle each client's rows, cut them by `shares`, and hold a share `unseen` of the clients out of training.

    Args:
        data: `data[i]` is a pytree of arrays whose first axis runs over client i's samples.
        shares: How much of a client's rows goes to training, adaptation and validation; the rest is for tests.
        unseen: The share of clients that take no part in training.
        rng: Of the order of rows, and of who is unseen.

    Returns:
        Everybody's data in four parts that never overlap.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.data import split_clients
        >>> data = [{"x": np.zeros((20, 2))} for client in range(3)]
        >>> split_clients(data, rng=np.random.default_rng(0)).train.sizes.tolist()
        [12, 12, 12]
    """
    data = checked_data(data)
    if sum(shares) >= 1 - 1e-9:
        raise UserMistake(
            f"shares {tuple(shares)} leave nothing to test on: train + adapt + validation must be below 1"
        )
    if not 0 <= unseen < 1:
        raise UserMistake(f"unseen is {unseen}, but the share of clients held out must lie in [0, 1)")
    if round(unseen * len(data)) == len(data):
        raise UserMistake(f"unseen is {unseen}, which leaves none of {len(data)} clients to train")
    sizes = [row_count(client, rows) for client, rows in enumerate(data)]
    lengths = np.array([_cut(client, size, shares) for client, size in enumerate(sizes)])
    shuffled = [_take(rows, rng.permutation(size)) for rows, size in zip(data, sizes, strict=True)]
    store = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *shuffled)
    starts = (np.cumsum(lengths) - lengths.ravel()).reshape(lengths.shape)  # train, adapt, …, client after client
    splits = [Split(store, starts[:, k].astype(np.int32), lengths[:, k].astype(np.int32)) for k in range(len(PARTS))]
    held_out = rng.choice(len(data), size=round(unseen * len(data)), replace=False)
    return Clients(splits[0], splits[1], splits[2], splits[3], frozenset(int(client) for client in held_out))


def _cut(client: int, size: int, shares: Shares) -> tuple[int, int, int, int]:
    # At least one sample to train on, to adapt on and to be scored on, however little a client has.
    if size < FEWEST:
        raise UserMistake(
            f"client {client} has {size} samples, but needs at least {FEWEST}: to train, to adapt and to test"
        )
    train = max(1, round(shares.train * size))
    adapt = max(1, round(shares.adapt * size))
    validation = round(shares.validation * size)
    while train + adapt + validation >= size:
        if validation:
            validation -= 1
        elif train >= adapt:
            train -= 1
        else:
            adapt -= 1
    return train, adapt, validation, size - train - adapt - validation


def _take(rows: PyTree, index: np.ndarray) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], rows)
