"""Letters between peers: what is said, who says it, and when by the sender's own count."""

from typing import NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree


class Stamp(NamedTuple):
    """When something was said: in which life of its sender, and in which of its rounds. Later stamps are larger."""

    incarnation: int
    round: int


NEVER = Stamp(0, -1)  # of who has not spoken yet


class Letter(NamedTuple):
    """What a peer tells all its out-neighbours when it wakes, and again until it next wakes."""

    sender: str
    stamp: Stamp
    content: PyTree


class Neighbours(NamedTuple):
    """What a peer knows of its network: its own name and number, how many there are, and whom it hears and tells."""

    name: str
    number: int
    agents: int
    hears: tuple[str, ...]
    tells: tuple[str, ...]


def why_unsound(letter: Letter, like: PyTree, horizon: int) -> str:
    """What is wrong with a letter before anything is computed with it; empty if nothing is."""
    if not (letter.stamp.incarnation >= 0 and 0 <= letter.stamp.round < horizon):
        return f"its round {letter.stamp.round} is not among the {horizon} of the run"
    if str(jax.tree.structure(letter.content)) != str(jax.tree.structure(like)):
        return "its parts are not those of the model"
    for found, wanted in zip(jax.tree.leaves(letter.content), jax.tree.leaves(like), strict=True):
        if np.shape(found) != np.shape(wanted) or np.asarray(found).dtype != np.asarray(wanted).dtype:
            return "its shapes or types are not those of the model"
        if not np.isfinite(np.asarray(found)).all():
            return "a number in it is not finite"
    return ""
