"""Distances between clients' data: total variation between their classes, 1-Wasserstein between their samples.

A. Fallah, A. Mokhtari, A. Ozdaglar. Personalized federated learning: a meta-learning approach. 2020, Sec. 4.2: with p_i
the distribution of client i's samples z = (x, y) and p = (1/n) sum_i p_i their average (every client counts alike),
gradients and Hessians of the f_i lie apart by at most (19) a multiple of total variation distances, or (22) of
1-Wasserstein distances.

| paper | code |
| --- | --- |
| (17): 1/2 sum_z |q_1(z) - q_2(z)| | `total_variation`, over classes |
| (20): the least mean distance d(z_1, z_2) that takes q_1 to q_2 | `wasserstein`, exact between samples of one size |
| W_1(p_i, p) in (22), exact between all samples there are | `wasserstein_to_average` |
| sqrt((1/n) sum_i dist(p_i, p)^2), in (19) and (22) | `root_mean_square` |

The paper leaves d open. Here d is the Euclidean distance of all that is a number in a sample (pixels between 0 and 1),
plus 1 where anything that is a name (a class, a click's place) differs; without numbers, W_1 is total variation. Two
samples of one distribution are some way apart already, the more so the more numbers there are: `alike` says how far.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import Clients, PyTree

CLIENTS, ROWS = 40, 100  # compared with each other, and rows of each, at most: bounded work for any problem
_REPEATS = 10  # pairs of samples for `alike`


class Points(NamedTuple):
    """Some samples as what distances are taken of: numbers (sample, column) and names (sample, column)."""

    numbers: np.ndarray
    names: np.ndarray

    def take(self, index: np.ndarray) -> "Points":
        """Some of them."""
        return Points(self.numbers[index], self.names[index])


class Transport(NamedTuple):
    """1-Wasserstein distances between the training samples of some clients."""

    clients: list[int]
    rows: int  # of each client, at most
    between: np.ndarray
    to_everybody: np.ndarray
    alike: float  # the mean distance of two samples of everybody's data, of the clients' median size


def distributions(counts: np.ndarray) -> np.ndarray:
    """Each client's classes as shares of its samples; a client without samples has no share of any."""
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def total_variation(shares: np.ndarray) -> np.ndarray:
    """Total variation distances between all clients (17)."""
    return np.stack([0.5 * np.abs(shares - mine).sum(axis=1) for mine in shares])


def to_average(shares: np.ndarray) -> np.ndarray:
    """Each client's total variation distance to p, where every client counts alike."""
    distances: np.ndarray = 0.5 * np.abs(shares - shares.mean(axis=0)).sum(axis=1)
    return distances


def root_mean_square(distances: np.ndarray) -> float:
    """What stands under (19) and (22)."""
    return float(np.sqrt(np.mean(np.square(distances))))


def points_of(rows: PyTree, index: np.ndarray) -> Points:
    """Rows of a store: numbers as they are, pixels between 0 and 1, whole numbers as names."""
    leaves = [np.asarray(leaf[index]).reshape(len(index), -1) for leaf in jax.tree.leaves(rows)]
    numbers = [leaf / 255 if leaf.dtype == np.uint8 else leaf for leaf in leaves if not _is_name(leaf)]
    names = [leaf for leaf in leaves if _is_name(leaf)]
    empty = np.zeros((len(index), 0))
    return Points(np.concatenate([empty, *numbers], axis=1), np.concatenate([empty, *names], axis=1))


def _is_name(leaf: np.ndarray) -> bool:
    return np.issubdtype(leaf.dtype, np.integer) and leaf.dtype != np.uint8


def wasserstein(first: Points, second: Points) -> float:
    """The 1-Wasserstein distance (20) between two samples of the same size: a matching of least mean distance."""
    from scipy.optimize import linear_sum_assignment

    costs = _costs(first, second)
    return float(costs[linear_sum_assignment(costs)].mean())


def wasserstein_to_average(clouds: Sequence[Points]) -> np.ndarray:
    """W_1(p_i, p) of every client, exactly: (20) as a linear program between its samples and those of all.

    Every client counts alike in p, however many samples it has. The program has a variable for each pair of samples, so
    this is for hundreds of samples; `transport` is for more, and goes by samples of p.
    """
    from scipy import sparse
    from scipy.optimize import linprog

    sizes = [len(cloud.numbers) for cloud in clouds]
    everybody = Points(*(np.concatenate(columns) for columns in zip(*clouds, strict=True)))
    average = np.repeat([1 / (len(sizes) * size) for size in sizes], sizes)
    found = []
    for mine, size in zip(clouds, sizes, strict=True):
        leaves = sparse.kron(sparse.eye(size), np.ones((1, len(average))))  # what each of its samples gives away
        arrives = sparse.kron(np.ones((1, size)), sparse.eye(len(average)))  # and what each sample of p receives
        moved = linprog(
            _costs(mine, everybody).ravel(),
            A_eq=sparse.vstack([leaves, arrives]).tocsc(),
            b_eq=np.concatenate([np.full(size, 1 / size), average]),
        )
        found.append(float(moved.fun))
    return np.array(found)


def _costs(first: Points, second: Points) -> np.ndarray:
    """The distances d(z_1, z_2) of all pairs."""
    from scipy.spatial.distance import cdist

    costs: np.ndarray = cdist(first.numbers, second.numbers)
    costs += (first.names[:, None] != second.names[None]).any(axis=2)
    return costs


def transport(clients: Clients, chosen: list[int], seed: int) -> Transport:
    """Distances between the chosen clients, and from each to all of them together, on at most `ROWS` rows each.

    Samples of different sizes are compared on as many rows as the smaller has. A client's rows lie in random order.
    """
    rng, train = np.random.default_rng([seed, 4]), clients.train
    sizes = [min(int(train.sizes[client]), ROWS) for client in chosen]
    clouds = [
        points_of(train.rows, train.starts[client] + np.arange(size))
        for client, size in zip(chosen, sizes, strict=True)
    ]
    between = np.zeros((len(chosen), len(chosen)))
    for i, mine in enumerate(clouds):
        for j in range(i):
            common = np.arange(min(sizes[i], sizes[j]))
            between[i, j] = between[j, i] = wasserstein(mine.take(common), clouds[j].take(common))
    everybody = [wasserstein(mine, _from_all(clouds, len(mine.numbers), rng)) for mine in clouds]
    size = int(np.median(sizes))
    alike = [wasserstein(_from_all(clouds, size, rng), _from_all(clouds, size, rng)) for _ in range(_REPEATS)]
    return Transport(chosen, max(sizes), between, np.array(everybody), float(np.mean(alike)))


def _from_all(clouds: list[Points], size: int, rng: np.random.Generator) -> Points:
    """A sample of p: each time any client, then any of its rows."""
    picked = [
        clouds[k].take(rng.integers(len(clouds[k].numbers), size=1)) for k in rng.integers(len(clouds), size=size)
    ]
    return Points(*(np.concatenate(columns) for columns in zip(*picked, strict=True)))
