"""Delay laws: random download, compute, upload and idle times, client by client.

PersA-FL (Sec. 5) gives every client random delays whose mean upload is four to six times its mean download.
"""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator

from idiolect.errors import UserMistake
from idiolect.options import known
from idiolect.registry import Registry


def _fixed(mean: float, variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Always the mean."""
    return np.full(count, mean)


def _exponential(mean: float, variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Without memory; its coefficient of variation is 1."""
    return rng.exponential(mean, count)


def _gamma(mean: float, variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """The gamma law with the given coefficient of variation."""
    shape = variation**-2
    return rng.gamma(shape, mean / shape, count)


def _lognormal(mean: float, variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """The lognormal law with the given coefficient of variation."""
    return mean * _unit_lognormal(variation, count, rng)


LAWS = Registry("delay_laws", {"fixed": _fixed, "exponential": _exponential, "lognormal": _lognormal, "gamma": _gamma})


def _known_law(name: str) -> str:
    known(LAWS, "law", name)
    return name


class Delay(NamedTuple):
    """A law of positive times with mean `mean`; `variation` is its coefficient of variation (lognormal, gamma).

    Args:
        law: A name of the registry of delay laws.
        mean: Of the times, in your unit of virtual time.
        variation: Their coefficient of variation, where the law has one to choose.

    Example:
        >>> from idiolect import Delay
        >>> Delay("gamma", mean=2.0).variation
        0.5
    """

    law: Annotated[str, AfterValidator(_known_law)] = "exponential"
    mean: Annotated[float, Ge(0)] = 1.0
    variation: Annotated[float, Gt(0)] = 0.5


class Network(NamedTuple):
    """What the network and the devices do to a turn. The unit of virtual time is yours; a mean download is 1 here.

    A client's own mean download, compute and upload are the means below times its pace. Between turns a client idles.

    Args:
        download: Of the model.
        compute: Of the local steps.
        upload: Unless given, uploads follow the download's law times a ratio of the client's own.
        idle: Between two turns.
        upload_ratio: From where to where that ratio is drawn, uniformly.
        spread: The variation of paces, which are lognormal.
        dropout: The chance that a client leaves in the middle of a turn and its work is lost.

    Example:
        >>> from idiolect import Delay, Network
        >>> Network(compute=Delay("fixed", 0.5), dropout=0.1).upload_ratio
        (4.0, 6.0)
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
    return np.asarray(LAWS[delay.law](delay.mean, delay.variation, count, rng))


def _unit_lognormal(variation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    """Lognormal with mean 1 and this coefficient of variation."""
    sigma = np.sqrt(np.log1p(variation**2))
    return np.exp(sigma * rng.standard_normal(count) - sigma**2 / 2)
