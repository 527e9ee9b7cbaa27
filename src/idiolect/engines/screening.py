"""Screening of updates: a server looks at them before it absorbs them, and counts those that it refuses.

Pure functions of what arrives and of a small state, so that a simulator compiles them and a real server calls them
unchanged. Shapes are checked first, by `misfit`, in plain Python; then `screen` looks at the numbers.

How long updates usually are is the median over clients, each with the last update it sent, refused ones included: a
minority of clients cannot move it far, however often they send, and nobody is locked out for good by a strange
beginning. Until a few clients have spoken, the model's own length has a voice as well. What is shorter than a ten
thousandth of the model is not called typical, so that the last clients to move are not refused when all others have
arrived.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Params, PyTree, Scalar, Screening, Upload
from idiolect.trees import norm

REASONS = ("not finite", "too large", "wrong shape")  # why an update is refused; one may also be cut down
NOT_FINITE, TOO_LARGE, WRONG_SHAPE, CUT = range(4)
FINE = -1

_REMEMBERED = 31  # clients, those that spoke last; enough that a few bad ones are not the majority
_A_FEW = 5  # clients; once so many have spoken, the model's length says nothing any more
_NOBODY, _THE_MODEL = -1, -2  # in place of a client
_LEAST_TYPICAL = 1e-4  # of the model's own length


class ScreeningState(NamedTuple):
    """What a server remembers of the updates that came."""

    lengths: jax.Array  # of the last one of each client that spoke lately, the newest last; infinite if there is none
    speakers: jax.Array  # whose these are; no client has two
    counts: jax.Array  # by client: refused for each of the reasons, and cut down
    refused: jax.Array  # by client: whether its last update was
    accepted: Scalar  # how many there were in all


def begin(params: Params, clients: int) -> ScreeningState:
    """Before the first update. `clients` are numbered from 0."""
    own = norm(params)
    lengths = jnp.full(_REMEMBERED, jnp.inf, jnp.float32).at[-1].set(jnp.where(own > 0, own, jnp.inf))
    speakers = jnp.full(_REMEMBERED, _NOBODY, jnp.int32).at[-1].set(_THE_MODEL)
    counts = jnp.zeros((clients, len(REASONS) + 1), jnp.int32)
    return ScreeningState(lengths, speakers, counts, jnp.zeros(clients, bool), jnp.int32(0))


def screen(
    watch: ScreeningState,
    upload: Upload,
    long: Scalar,
    client: Scalar,
    params: Params,
    rule: Screening,
    *,
    sound: Any = True,
) -> tuple[ScreeningState, Upload, Scalar]:
    """Look at an update for a model: what to remember, the update as it may be absorbed, and the verdict.

    `long` is the update's length, which nobody but the server should be trusted with; in a simulation it is measured
    where the client runs, off the server's path. `sound` is whether the client met only finite numbers, where it tells.
    The verdict is FINE, CUT or the number of the reason for which the update must not be absorbed.
    """
    sound &= jnp.isfinite(long) & jnp.isfinite(upload.weight) & (upload.weight >= 0)
    # Almost always, a count of the lengths that would make this one too large settles it, without sorting them.
    shorter = (long > rule.too_large * watch.lengths).sum()
    doubtful = shorter > (jnp.isfinite(watch.lengths).sum() - 1) // 2
    usual = jax.lax.cond(doubtful, lambda: typical(watch, params), lambda: jnp.float32(jnp.inf))
    excessive = long > rule.too_large * usual
    cut = rule.policy == "clip"
    verdict = jnp.where(sound, jnp.where(excessive, CUT if cut else TOO_LARGE, FINE), NOT_FINITE)
    if cut:
        share = jnp.where(sound & excessive, usual / long, 1.0)
        upload = upload._replace(delta=jax.tree.map(lambda leaf: share.astype(leaf.dtype) * leaf, upload.delta))
    watch = jax.tree.map(partial(jnp.where, sound & (long > 0)), _heard(watch, client, long), watch)
    return judged(watch, client, verdict), upload, verdict


def _heard(watch: ScreeningState, client: Scalar, long: Scalar) -> ScreeningState:
    """A client has spoken: what it said before is forgotten or, if it is new, whoever has been silent for longest."""
    mine = watch.speakers == client
    gone = jnp.where(mine.any(), jnp.argmax(mine), 0)
    places = jnp.arange(_REMEMBERED - 1)
    left = places + (places >= gone)
    lengths = jnp.append(watch.lengths[left], jnp.asarray(long, watch.lengths.dtype))
    speakers = jnp.append(watch.speakers[left], jnp.asarray(client, watch.speakers.dtype))
    enough = (speakers >= 0).sum() >= _A_FEW
    return watch._replace(lengths=jnp.where(enough & (speakers == _THE_MODEL), jnp.inf, lengths), speakers=speakers)


def judged(watch: ScreeningState, client: Scalar | int, verdict: Scalar | int) -> ScreeningState:
    """Count a verdict."""
    refused, mine = is_refusal(verdict), watch.counts[client] + jnp.equal(jnp.arange(watch.counts.shape[1]), verdict)
    return watch._replace(
        counts=jax.lax.dynamic_update_index_in_dim(watch.counts, mine, client, 0),
        refused=jax.lax.dynamic_update_index_in_dim(watch.refused, refused, client, 0),
        accepted=watch.accepted + ~refused,
    )


def is_refusal(verdict: Scalar | int) -> Scalar:
    """Whether an update with this verdict must be left out."""
    return jnp.not_equal(verdict, FINE) & jnp.not_equal(verdict, CUT)


def typical(watch: ScreeningState, params: Params) -> Scalar:
    """How long updates usually are; infinite while nothing is known."""
    known = jnp.isfinite(watch.lengths).sum()
    median = jnp.sort(watch.lengths)[(known - 1) // 2]  # of an even number the shorter one; of none, infinite
    return jnp.maximum(median, _LEAST_TYPICAL * norm(params))


def misfit(upload: Upload, expected: PyTree) -> str:
    """How an update differs from the tree of shapes and dtypes that a server expects; empty if it does not."""
    found: Any = jax.tree.structure(upload.delta)
    if found != jax.tree.structure(expected):
        return f"is a tree {found}, not {jax.tree.structure(expected)}"
    pairs = zip(jax.tree.leaves(upload.delta), jax.tree.leaves(expected), strict=True)
    for place, (leaf, wanted) in enumerate(pairs):
        shape, kind = getattr(leaf, "shape", "no shape"), getattr(leaf, "dtype", type(leaf).__name__)
        if (shape, kind) != (wanted.shape, wanted.dtype):
            name = jax.tree_util.keystr(jax.tree_util.tree_leaves_with_path(expected)[place][0])
            return f"has {kind} {shape} in place of {wanted.dtype} {wanted.shape}{name and ' as its '}{name}"
    return "" if np.shape(upload.weight) == () else f"has a weight of shape {np.shape(upload.weight)}, not one number"


def shapes_of(tree: PyTree) -> PyTree:
    """A tree's shapes and dtypes, for `misfit`."""
    shapes: PyTree = jax.eval_shape(lambda: tree)
    return shapes


def tally(watch: ScreeningState) -> dict[int, dict[str, int]]:
    """The clients whose updates were not absorbed as they came: how many, and why."""
    counts: Any = np.asarray(watch.counts)
    names = (*REASONS, "cut down")
    return {
        int(client): {name: int(count) for name, count in zip(names, counts[client], strict=True) if count}
        for client in np.flatnonzero(counts.any(1))
    }
