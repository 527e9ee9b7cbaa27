"""How long things take: random download, compute, upload and idle times, client by client.

PersA-FL (Sec. 5) gives every client random delays whose mean upload is four to six times its mean download.
"""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from idiolect.errors import UserMistake

Law = Literal["fixed", "exponential", "lognormal", "gamma"]


class Delay(NamedTuple):
    """A law of positive times with mean `mean`; `variation` is its coefficient of variation (lognormal, gamma)."""

    law: Law = "exponential"
    mean: Annotated[float, Ge(0)] = 1.0
    variation: Annotated[float, Gt(0)] = 0.5


class Network(NamedTuple):
    """What the network and the devices do to a turn. The unit of virtual time is yours; a mean download is 1 here.

    A client's own mean download, compute and upload are the means below times its pace, lognormal with variation
    `spread`.
    Unless `upload` is given, uploads follow the download's law times a ratio of the client's own, drawn uniformly from
    `upload_ratio`. Between turns a client idles.
    `dropout` is the chance that a client leaves in the middle of a turn and its work is lost.
    """

    download: Delay = Delay()
    compute: Delay = Delay("fixed", 0.1)
    upload: Delay | None = None
    idle: Delay = Delay(mean=1.5)
    upload_ratio: tuple[Annotated[float, Gt(0)], Annotated[float, Gt(0)]] = (4.0, 6.0)
    spread: Annotated[float, Ge(0), Le(10)] = 0.3
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0


class Turns(NamedTuple):
    """One turn of each of several clients: the length of each phase, and whether the upload comes through."""

    download: np.ndarray
    compute: np.ndarray
    upload: np.ndarray
    idle: np.ndarray
    delivered: np.ndarray


class Devices:
    """A population of clients with their own mean delays; every call draws the phases of one more turn."""

    def __init__(self, network: Network, clients: int, rng: np.random.Generator) -> None:
        low, high = network.upload_ratio
        if low > high:
            raise UserMistake(f"network.upload_ratio is [{low}, {high}], but the first must not exceed the second")
        self._network = network
        self._rng = rng
        self._pace = _unit_lognormal(network.spread, clients, rng)
        self._ratio = rng.uniform(low, high, clients)

    def turns(self, clients: np.ndarray) -> Turns:
        """Draw one turn for each of these clients."""
        network, rng, pace = self._network, self._rng, self._pace[clients]
        download = pace * _draw(network.download, len(clients), rng)
        if network.upload is None:
            upload = pace * self._ratio[clients] * _draw(network.download, len(clients), rng)
        else:
            upload = pace * _draw(network.upload, len(clients), rng)
        compute = pace * _draw(network.compute, len(clients), rng)
        idle = _draw(network.idle, len(clients), rng)
        delivered = rng.random(len(clients)) >= network.dropout
        return Turns(download, compute, upload, idle, delivered)


def _draw(delay: Delay, count: int, rng: np.random.Generator) -> np.ndarray:
    if delay.law == "fixed":
        return np.full(count, delay.mean)
    if delay.law == "exponential":
        return rng.exponential(delay.mean, count)
    if delay.law == "gamma":
        shape = delay.variation**-2
        return rng.gamma(shape, delay.mean / shape, count)
    return delay.mean * _unit_lognormal(delay.variation, count, rng)


def _unit_lognormal(variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Lognormal with mean 1 and this coefficient of variation."""
    sigma = np.sqrt(np.log1p(variation**2))
    return np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
