"""Screening of updates: a server looks at them before it absorbs them, and counts those that it refuses.

Pure functions of what arrives and of a small state, so that a simulator compiles them and a real server calls them
unchanged. Shapes are checked first, by `misfit`, in plain Python; then `screen` looks at the numbers.

How long updates usually are is the median over clients, each with the last update it sent, refused ones included: a
minority of clients cannot move it far, however often they send, and nobody is locked out for good by a strange
beginning. Until a few clients have spoken, the model's own length has a voice as well. What is shorter than a ten
thousandth of the model is not called typical, so that the last clients to move are not refused when all others have
arrived.

Which way updates usually point is told by the same clients, where the rule asks for it (`idiolect.engines.directions`).
Whoever is refused again and again is put off: while a client has `strikes` refusals, its updates are looked at and left
out. Half of them are forgotten in every `forget` updates of that client that are right, and nobody has more than twice
as many as put it off. So a liar who is caught now and then does no harm in between, and who sends nothing wrong any
more is heard again after about `forget` turns.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idiolect.contracts import Params, PyTree, Scalar, Screening, Upload
from idiolect.engines.directions import KEPT, agreement, direction
from idiolect.trees import norm

# Why an update is refused; one may also be cut down.
REASONS = ("not finite", "too large", "wrong shape", "against the others", "put off")
NOT_FINITE, TOO_LARGE, WRONG_SHAPE, AGAINST, PUT_OFF, CUT = range(6)
FINE = -1

_REMEMBERED = 31  # clients, those that spoke last; enough that a few bad ones are not the majority
_A_FEW = 5  # clients; once so many have spoken, the model's length says nothing any more
_NOBODY, _THE_MODEL = -1, -2  # in place of a client
_LEAST_TYPICAL = 1e-4  # of the model's own length


class ScreeningState(NamedTuple):
    """What a server remembers of the updates that came."""

    lengths: jax.Array  # of the last one of each client that spoke lately, the newest last; infinite if there is none
    speakers: jax.Array  # whose these are; no client has two
    voices: jax.Array  # their directions, where they matter; else of no numbers
    counts: jax.Array  # by client: refused for each of the reasons, and cut down
    refused: jax.Array  # by client: whether its last update was
    doubts: jax.Array  # by client: its refusals, as far as they are not forgotten, in float32
    accepted: Scalar  # how many there were in all


def begin(params: Params, clients: int, rule: Screening = Screening()) -> ScreeningState:
    """Before the first update. `clients` are numbered from 0."""
    own = norm(params)
    lengths = jnp.full(_REMEMBERED, jnp.inf, jnp.float32).at[-1].set(jnp.where(own > 0, own, jnp.inf))
    speakers = jnp.full(_REMEMBERED, _NOBODY, jnp.int32).at[-1].set(_THE_MODEL)
    voices = jnp.zeros((_REMEMBERED, KEPT if _minds_directions(rule) else 0), jnp.float32)
    counts = jnp.zeros((clients, len(REASONS) + 1), jnp.int32)
    refused, doubts = jnp.zeros(clients, bool), jnp.zeros(clients, jnp.float32)
    return ScreeningState(lengths, speakers, voices, counts, refused, doubts, jnp.int32(0))


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
    cut, mine = rule.policy == "clip", _voice(upload, long, rule)
    verdict = jnp.where(excessive, CUT if cut else TOO_LARGE, FINE)
    verdict = jnp.where(~is_refusal(verdict) & _opposed(watch, client, mine, rule), AGAINST, verdict)
    verdict = jnp.where(sound, verdict, NOT_FINITE)
    verdict = jnp.where(~is_refusal(verdict) & is_put_off(watch, client, rule), PUT_OFF, verdict)
    if cut:
        share = jnp.where(sound & excessive, usual / long, 1.0)
        upload = upload._replace(delta=jax.tree.map(lambda leaf: share.astype(leaf.dtype) * leaf, upload.delta))
    watch = jax.tree.map(partial(jnp.where, sound & (long > 0)), _heard(watch, client, long, mine), watch)
    return judged(watch, client, verdict, rule), upload, verdict


def _minds_directions(rule: Screening) -> bool:
    return rule.least_cosine > -1


def _voice(upload: Upload, long: Scalar, rule: Screening) -> jax.Array:
    """The direction of an update, if it matters."""
    return direction(upload.delta, long) if _minds_directions(rule) else jnp.zeros(0, jnp.float32)


def _opposed(watch: ScreeningState, client: Scalar, mine: jax.Array, rule: Screening) -> Scalar | bool:
    """Does an update point too far away from where the others' do?"""
    if not _minds_directions(rule):
        return False
    others = (watch.speakers >= 0) & (watch.speakers != client)
    return agreement(watch.voices, others, mine) < rule.least_cosine


def is_put_off(watch: ScreeningState, client: Scalar | int, rule: Screening) -> Scalar:
    """Has a client been refused so often of late that it is not listened to?"""
    return (watch.doubts[client] >= rule.strikes) & (rule.strikes > 0)


def _heard(watch: ScreeningState, client: Scalar, long: Scalar, mine: jax.Array) -> ScreeningState:
    """A client has spoken: what it said before is forgotten or, if it is new, whoever has been silent for longest."""
    before = watch.speakers == client
    gone = jnp.where(before.any(), jnp.argmax(before), 0)
    places = jnp.arange(_REMEMBERED - 1)
    left = places + (places >= gone)
    lengths = jnp.append(watch.lengths[left], jnp.asarray(long, watch.lengths.dtype))
    speakers = jnp.append(watch.speakers[left], jnp.asarray(client, watch.speakers.dtype))
    voices = jnp.concatenate([watch.voices[left], mine[None]])
    enough = (speakers >= 0).sum() >= _A_FEW
    lengths = jnp.where(enough & (speakers == _THE_MODEL), jnp.inf, lengths)
    return watch._replace(lengths=lengths, speakers=speakers, voices=voices)


def judged(
    watch: ScreeningState, client: Scalar | int, verdict: Scalar | int, rule: Screening = Screening()
) -> ScreeningState:
    """Count a verdict. To be put off is no reason to be put off for longer."""
    refused, mine = is_refusal(verdict), watch.counts[client] + jnp.equal(jnp.arange(watch.counts.shape[1]), verdict)
    before, wrong = watch.doubts[client], refused & jnp.not_equal(verdict, PUT_OFF)
    doubt = jnp.where(wrong, jnp.minimum(before + 1, 2.0 * rule.strikes), before * 0.5 ** (1 / rule.forget))
    return watch._replace(
        counts=jax.lax.dynamic_update_index_in_dim(watch.counts, mine, client, 0),
        refused=jax.lax.dynamic_update_index_in_dim(watch.refused, refused, client, 0),
        doubts=jax.lax.dynamic_update_index_in_dim(watch.doubts, doubt.astype(jnp.float32), client, 0),
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
