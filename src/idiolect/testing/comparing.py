"""How laws are judged: the same bytes, the same types, close enough; and how a broken one is told."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.errors import UserMistake

Made = TypeVar("Made")


class Training(NamedTuple):
    """How a client descends while laws are checked; the losses have curvatures of about 1.

    Args:
        local_steps: Gradient steps of a turn.
        step_size: Of a local step.
        batch_size: Samples of a gradient.

    Example:
        >>> from idiolect.testing import Training
        >>> Training(step_size=0.01).local_steps
        4
    """

    local_steps: int = 4
    step_size: float = 0.02
    batch_size: int = 5


def require(holds: bool, law: str, sentence: str) -> None:
    """Say which law is broken, and how, unless it holds."""
    if not holds:
        raise AssertionError(f"the law '{law}' is broken: {sentence}")


def works(law: str, what: str, call: Callable[[], Made]) -> Made:
    """What a call returns; that it returns at all is a law, and what JAX says of it is part of the sentence."""
    try:
        return call()
    except (AssertionError, UserMistake):
        raise
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise AssertionError(
            f"the law '{law}' is broken: {what} raises {type(error).__name__}, which says: {first}"
        ) from error


def made_from(kind: type[Made], given: Any, options: Mapping[str, Any]) -> Made:
    """One's own algorithm, or what a factory makes with these options."""
    if not isinstance(given, kind) and callable(given):
        given, options = given(**options), {}
    if not isinstance(given, kind):
        raise UserMistake(f"what is to be checked is {given!r}, but must be of the kind {kind.__name__}, or make one")
    if options:
        raise UserMistake(f"{', '.join(options)} are options of a factory, but what is to be checked is already made")
    return given


def same_bytes(left: PyTree, right: PyTree) -> bool:
    """Are all leaves the same, to the last bit?"""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def apart(left: PyTree, right: PyTree) -> float:
    """The largest difference of two entries; infinite if one is not finite."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    gaps = [np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max(initial=0) for a, b in pairs]
    found = float(np.max(gaps, initial=0.0))
    return found if np.isfinite(found) else float("inf")


def agree(left: PyTree, right: PyTree, tolerance: float) -> bool:
    """Do all entries agree up to this, relative to themselves or to 1?"""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance) for a, b in pairs)


def difference(found: PyTree, wanted: PyTree) -> str:
    """Where a tree's structure, shapes or types are not those of another, in words; empty if they are the same."""
    trees: list[Any] = [jax.tree.structure(tree) for tree in (found, wanted)]
    if trees[0] != trees[1]:
        return f"is a tree {trees[0]}, not {trees[1]}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(found), jax.tree.leaves(wanted), strict=True)
    for (path, leaf), other in pairs:
        if kind_of(leaf) != kind_of(other):
            place = jax.tree_util.keystr(path)
            return f"is {kind_of(leaf)} and not {kind_of(other)}{place and ' in its '}{place}"
    return ""


def kind_of(leaf: Any) -> str:
    """The type and shape of an array, of a number, or of the trace of one."""
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return f"{dtype} {tuple(np.shape(leaf))}"


def kinds(tree: PyTree) -> PyTree:
    """Shapes and types of the leaves, and whether a type is only a weak one; a change means to compile anew."""
    return jax.tree.map(lambda leaf: f"{kind_of(leaf)}{' weak' * bool(getattr(leaf, 'weak_type', False))}", tree)


def changed(before: PyTree, after: PyTree) -> str:
    """Which kinds are not what they were, in words; empty if none."""
    trees: list[Any] = [jax.tree.structure(tree) for tree in (before, after)]
    if trees[0] != trees[1]:
        return f"has become a tree {trees[1]}, but was {trees[0]}"
    pairs = zip(jax.tree_util.tree_leaves_with_path(before), jax.tree.leaves(after), strict=True)
    moved = [f"{was} has become {now} in its {jax.tree_util.keystr(path)}" for (path, was), now in pairs if was != now]
    return "; ".join(moved)
