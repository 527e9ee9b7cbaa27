"""Partitions of a data set. A partition deals labelled samples to clients; no sample goes to two of them.

Every factory returns `deal(labels, clients, rng) -> one index array per client`.
"""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge, Gt

from idiolect.errors import UserMistake

Deal: TypeAlias = Callable[[np.ndarray, int, np.random.Generator], list[np.ndarray]]


def iid() -> Deal:
    """Everyone draws from the same distribution, in equal shares.

    Returns:
        `deal(labels, clients, rng)`, which gives an array of row numbers for each client.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.data import iid
        >>> [len(hand) for hand in iid()(np.arange(100) % 10, 4, np.random.default_rng(0))]
        [25, 25, 25, 25]
    """

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        return np.array_split(rng.permutation(len(labels)), clients)

    return deal


def by_classes(*, classes: Annotated[int, Ge(1)] = 5, unequal: Annotated[float, Ge(0)] = 0.0) -> Deal:
    """Each client sees only `classes` of the classes (PersA-FL, Sec. 5), all classes being used about equally often.

    A class is divided among its holders in shares proportional to exp(unequal * normal): equal for `unequal = 0`.

    Args:
        classes: How many classes a client sees.
        unequal: How much the shares of a class differ.

    Returns:
        `deal(labels, clients, rng)`, which gives an array of row numbers for each client.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.data import by_classes
        >>> labels = np.arange(100) % 10
        >>> hands = by_classes(classes=2)(labels, 5, np.random.default_rng(0))
        >>> [len(np.unique(labels[hand])) for hand in hands]
        [2, 2, 2, 2, 2]
    """

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        known = np.unique(labels)
        if classes > len(known):
            raise UserMistake(f"partition.classes is {classes}, but the data has only {len(known)} classes")
        held = _spread_classes(known, clients, classes, rng)
        appetite = np.exp(unequal * rng.standard_normal(clients))
        hands: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for label in known:
            holders = [client for client in range(clients) if label in held[client]]
            if holders:
                _deal_class(rng.permutation(np.flatnonzero(labels == label)), holders, appetite, hands)
        return [np.concatenate(hand) for hand in hands]

    return deal


def dirichlet(*, a: Annotated[float, Gt(0)] = 0.5, smallest: Annotated[int, Ge(3)] = 10) -> Deal:
    """Each class is divided among the clients by Dirichlet(a) shares, redrawn until everyone has `smallest` samples.

    Args:
        a: The smaller, the more shares differ.
        smallest: The least samples of a client.

    Returns:
        `deal(labels, clients, rng)`, which gives an array of row numbers for each client.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.data import dirichlet
        >>> hands = dirichlet(a=1.0)(np.arange(200) % 10, 4, np.random.default_rng(0))
        >>> min(len(hand) for hand in hands) >= 10
        True
    """

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        if clients * smallest > len(labels):
            raise UserMistake(
                f"partition.smallest is {smallest}, but {len(labels)} samples cannot give that to {clients} clients"
            )
        for _ in range(1000):
            hands: list[list[np.ndarray]] = [[] for _ in range(clients)]
            for label in np.unique(labels):
                shares = rng.dirichlet(np.full(clients, a))
                _deal_class(rng.permutation(np.flatnonzero(labels == label)), list(range(clients)), shares, hands)
            if min(sum(map(len, hand)) for hand in hands) >= smallest:
                return [np.concatenate(hand) for hand in hands]
        raise UserMistake(
            f"partition.a is {a}: in 1000 draws some client always had fewer than {smallest} samples; "
            "take a larger a, fewer clients or a smaller `smallest`"
        )

    return deal


def two_worlds(*, a: Annotated[int, Ge(2)] = 100) -> Deal:
    """Per-FedAvg's layout (Sec. 5): half the clients hold `a` of each class 0-4, the others 2.5 `a` of two classes.

    The second half hold a/2 samples of one of the classes 0-4 and 2a of one of 5-9.

    Args:
        a: Samples of a class, of the first half of the clients.

    Returns:
        `deal(labels, clients, rng)`, which gives an array of row numbers for each client.

    Example:
        >>> import numpy as np
        >>> from idiolect.problems.data import two_worlds
        >>> hands = two_worlds(a=10)(np.arange(1000) % 10, 4, np.random.default_rng(0))
        >>> sorted(len(hand) for hand in hands)
        [25, 25, 50, 50]
    """

    def deal(labels: np.ndarray, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        decks = {label: rng.permutation(np.flatnonzero(labels == label)) for label in range(10)}
        dealt = dict.fromkeys(decks, 0)

        def draw(label: int, count: int) -> np.ndarray:
            first = dealt[label]
            if first + count > len(decks[label]):
                raise UserMistake(
                    f"partition.a is {a}, but class {label} has only {len(decks[label])} samples for {clients} clients"
                )
            dealt[label] += count
            return decks[label][first : first + count]

        half = clients // 2
        hands = [np.concatenate([draw(label, a) for label in range(5)]) for _ in range(half)]
        # Going round the classes rather than drawing them leaves none of 5-9 out and none twice as often.
        turns = range(clients - half)
        low, high = rng.permutation(5), rng.permutation(np.arange(5, 10))
        hands += [np.concatenate([draw(int(low[k % 5]), a // 2), draw(int(high[k % 5]), 2 * a)]) for k in turns]
        return [hands[client] for client in rng.permutation(clients)]

    return deal


def _spread_classes(known: np.ndarray, clients: int, classes: int, rng: np.random.Generator) -> list[set[int]]:
    used = np.zeros(len(known))
    held = []
    for _ in range(clients):
        # The least used classes first, ties broken at random, so that no class is left without a holder for long.
        chosen = np.lexsort((rng.random(len(known)), used))[:classes]
        used[chosen] += 1
        held.append({int(known[k]) for k in chosen})
    return held


def _deal_class(samples: np.ndarray, holders: list[int], appetite: np.ndarray, hands: list[list[np.ndarray]]) -> None:
    shares = appetite[holders] / appetite[holders].sum()
    # The small number keeps sums like 0.1 + 0.2 from falling just short of a whole sample.
    cuts = np.floor(np.cumsum(shares)[:-1] * len(samples) + 1e-9).astype(int)
    for client, part in zip(holders, np.split(samples, cuts), strict=True):
        hands[client].append(part)
