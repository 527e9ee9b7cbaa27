"""Gymnasium's spaces as the numbers of ours, and gymnasium itself, which is an extra."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from gymnasium import Space


def load_gymnasium() -> ModuleType:
    """The package, or a sentence about how to get it."""
    try:
        import gymnasium
    except ImportError:
        raise UserMistake("this problem needs gymnasium, which is missing: pip install 'idiolect[gymnasium]'") from None
    return gymnasium


class Actions(NamedTuple):
    """How an action looks in a history, and how the environment wants it."""

    name: Literal["discrete", "continuous"]
    size: int
    shape: tuple[int, ...]
    kind: np.dtype[Any]
    decode: Callable[[np.ndarray], Any]


class Observations(NamedTuple):
    """How many numbers the policy sees, and how they come out of what the environment shows."""

    size: int
    encode: Callable[[Any], np.ndarray]


def actions(space: "Space[Any]") -> Actions:
    """For a `Discrete` space or a `Box` of real numbers; there are no others here."""
    spaces = load_gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        start = space.start
        kind = np.min_scalar_type(int(space.n) - 1)  # histories travel in every step
        return Actions("discrete", int(space.n), (), kind, lambda action: start + int(action))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        size, low, high = math.prod(space.shape), space.low, space.high
        return Actions(
            "continuous",
            size,
            (size,),
            np.dtype(np.float32),
            lambda action: np.clip(action.reshape(low.shape), low, high).astype(space.dtype),
        )
    raise UserMistake(f"the environment's action space is {space}, but must be Discrete or a Box of real numbers")


def observations(space: "Space[Any]") -> Observations:
    """For a `Discrete` space or a `Box`; there are no others here."""
    spaces = load_gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        size, start = int(space.n), int(space.start)
        return Observations(size, lambda seen: np.eye(1, size, int(seen) - start, dtype=np.float32)[0])
    if isinstance(space, spaces.Box):
        return Observations(math.prod(space.shape), lambda seen: np.asarray(seen, np.float32).ravel())
    raise UserMistake(f"the environment's observation space is {space}, but must be Discrete or Box")
