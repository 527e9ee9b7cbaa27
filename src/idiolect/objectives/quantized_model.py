"""Every client its own weights and its own levels to round them to, near a model that all share.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL: quantized personalization with applications to federated learning.
2021, Algorithm 1 (`lambda_p = 0`, one client or each alone) and Algorithm 2. Y. Bai, Y.-X. Wang, E. Liberty. ProxQuant.
2019, is the case of levels that do not learn: `centers_step_size = 0`.

| QuPeL | code |
| --- | --- |
| (2), (8): f(x) + f(Q~_c(x)) + lambda R(x, c) + lambda_p/2 ||x - w||^2 | `value` |
| Alg. 1, l. 2-3; Alg. 2, l. 4-5: x <- prox(x - eta1 (g + lambda_p (x - w))) | `_train` |
| Alg. 1, l. 4-5; Alg. 2, l. 6-7: c <- prox(c - eta2 h) | `_train` |
| Alg. 2, l. 8: w <- w - eta3 lambda_p (w - x) | `gradient`; eta3 is the training's step size |
| Alg. 2, l. 10-11 and 14-16 | any protocol with a server; `synchronous` is the paper's |
| Alg. 1, output; Alg. 2, l. 19: Q_c(x) | `adapt`: `keep_own` |
| Sec. 7.1, P -> infinity | `sharpness` not set |
| Sec. 7.2, fine tuning | `fine_tune_after`, `_tune` |
| footnote 6: full precision | `bits = 32` |

Deviations: line 8 is printed with x - w, which climbs; the proof in Sec. 6 descends. g and h of one iteration see the
same batch. In print an iteration either learns or communicates: of tau iterations tau - 1 learn, so the paper's
tau = 10 is `local_steps = 9`. A client's x starts at the first model it receives. With `levels_stop = "median"` the map
of the levels ends at the median of their weights, which it steps over in print (`quantization.proximal_maps`). Levels
are sorted after each step, which only renames them. While fine tuning, what is not rounded goes on towards w as before,
and x follows its levels.

Laws: without levels it is pFedMe's personal step taken once; with `lambda = 0` and levels that do not learn, x is that
of full precision; a client that never fine-tunes keeps full-precision x, and rounds only what it shows.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from annotated_types import Ge, Gt, Lt

from idiolect.contracts import Info, Key, Objective, Oracle, Params, Scalar
from idiolect.quantization.channels import Books
from idiolect.quantization.codebooks import (
    LayerBits,
    Start,
    Widths,
    check_start,
    deal_widths,
    first_levels,
    layer_widths,
)
from idiolect.quantization.descent import Descent, Optimizer, descent
from idiolect.quantization.layers import USUALLY_KEPT, named_leaves, replace_leaves
from idiolect.quantization.personal import Levels, Own, keep_own, round_weights, rounding
from idiolect.quantization.proximal_maps import clip_levels, draw_levels, draw_weights
from idiolect.quantization.quantizers import distance, put
from idiolect.quantization.rates import Rate, is_zero, rate_at


class _Rules(NamedTuple):
    """What the steps need to know, apart from the state."""

    descent: Descent
    step_size: Rate
    centers_step_size: Rate
    pull: Rate
    sharpness: float | None
    stop_at_median: bool


def quantized(
    *,
    bits: Widths = 2,
    levels: Widths | None = None,
    layer_bits: dict[str, LayerBits] | None = None,
    codebooks: Books = "layer",
    keep: Sequence[str] = USUALLY_KEPT,
    centers: Start = "kmeans",
    sharpness: Annotated[float, Gt(0)] | None = None,
    lambda_: Rate = 1e-4,
    lambda_p: Annotated[float, Ge(0)] = 0.0,
    step_size: Rate = 0.1,
    centers_step_size: Rate = 1e-4,
    levels_stop: Literal["median"] | None = None,
    optimizer: Optimizer = "sgd",
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.0,
    weight_decay: Annotated[float, Ge(0)] = 0.0,
    fine_tune_after: Annotated[int, Ge(0)] | None = None,
) -> Objective:
    """Learn weights and, layer by layer, the `bits`-wide levels they are rounded to; `keep` stays full precision.

    Args:
        bits: The width of all clients, of each (`[3, 3, 2]`), or `{width: number of clients}`; 32 is full precision.
        levels: The same in numbers of levels, in place of bits.
        layer_bits: Widths of some layers, by patterns of their names: `{"convolutions.*": 4}`; the first match counts.
        codebooks: Whether a layer has one codebook, or each of its outputs (channels) has its own.
        keep: Which layers stay in full precision: `first`, `last`, `vectors`, or patterns such as `dense.*`.
        centers: Where levels begin: at quantiles, at k-means, or at given values.
        sharpness: P of the soft quantizer; not set, it is infinite.
        lambda_: Pulls weights to their levels.
        lambda_p: Pulls weights to the shared model.
        step_size: The paper's eta1, of the weights.
        centers_step_size: The paper's eta2, of the levels; with 0 they do not learn.
        levels_stop: With `median` the proximal map of the levels ends its step at the median of a level's weights; not
            set, it is the paper's, which steps to and fro over it.
        optimizer: `sgd` or `adam`.
        momentum: Of `sgd`.
        weight_decay: Of the weights.
        fine_tune_after: After so many local steps weights are rounded for good, and only what is kept in full precision
            and the levels go on learning.

    Returns:
        The objective; a client keeps its weights, its levels and what the optimizer remembers.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from idiolect.objectives import quantized
        >>> own = quantized(levels=3, keep=[], centers="quantiles").begin({"weight": jnp.eye(4)}, 0, jax.random.key(0))
        >>> own.levels["weight"].shape
        (3,)
    """
    dealt = deal_widths(bits, levels)
    check_start(centers, dealt, layer_bits)
    rules = _Rules(
        descent(optimizer, momentum, weight_decay, lambda_p),
        step_size,
        centers_step_size,
        lambda_,
        sharpness,
        levels_stop == "median",
    )

    def begin(params: Params, client: int, key: Key) -> Own:
        leaves, count = named_leaves(params), dealt.levels(client)
        widths = layer_widths(params, keep, count, layer_bits)
        own = {name: first_levels(leaves[name], width, centers, codebooks) for name, width in widths.items()}
        return Own(params, own, rules.descent.start(params), jnp.int32(0))

    def value(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> Scalar:
        leaves = named_leaves(own.weights)
        strength = rate_at(lambda_, own.steps)
        apart_from_levels = sum(distance(leaves[name], c) for name, c in own.levels.items())
        apart = optax.tree.norm(optax.tree.sub(own.weights, params), squared=True)
        at_levels = oracle.value(round_weights(own.weights, own.levels, sharpness), key) if own.levels else 0.0
        return oracle.value(own.weights, key) + at_levels + strength * apart_from_levels + 0.5 * lambda_p * apart

    def gradient(oracle: Oracle, own: Own, params: Params, received: Params, key: Key) -> tuple[Own, Params, Info]:
        if fine_tune_after is None or not own.levels:
            moved, loss = _train(rules, oracle, own, params, key)
        else:
            moved, loss = jax.lax.cond(
                own.steps < fine_tune_after,
                lambda own: _train(rules, oracle, own, params, key),
                lambda own: _tune(rules, oracle, own, params, key),
                own,
            )
        grads = optax.tree.scale(lambda_p, optax.tree.sub(params, moved.weights))  # Alg. 2, l. 8
        return moved, grads, {"loss": loss, **rounding(moved)}

    return Objective(begin, value, gradient, keep_own, check=dealt.check)


def _train(rules: _Rules, oracle: Oracle, own: Own, shared: Params, key: Key) -> tuple[Own, Scalar]:
    """One iteration of Algorithm 1 or 2: the weights, then the levels."""
    x, c, memory, t = own
    eta1, eta2, pull = (rate_at(r, t) for r in (rules.step_size, rules.centers_step_size, rules.pull))
    loss, g = oracle.gradient(x, key)
    if c and rules.sharpness is not None:
        g = optax.tree.add(g, _through(rules, oracle, x, c, key)[1])  # Alg. 1, l. 2; Alg. 2, l. 4
    x, memory = rules.descent.step(x, g, shared, memory, eta1)
    drawn = {name: draw_weights(named_leaves(x)[name], c[name], pull * eta1 / 2) for name in c}
    x = replace_leaves(x, drawn)  # Alg. 1, l. 3; Alg. 2, l. 5
    if c and not is_zero(rules.centers_step_size):
        h = _through(rules, oracle, x, c, key)[2]  # Alg. 1, l. 4; Alg. 2, l. 6
        c = {
            name: jnp.sort(_levels_drawn(rules, c[name] - eta2 * h[name], drawn[name], c[name], pull * eta2 / 2))
            for name in c
        }  # Alg. 1, l. 5; Alg. 2, l. 7
    return Own(x, c, memory, t + 1), loss


def _levels_drawn(rules: _Rules, moved: jax.Array, x: jax.Array, levels: jax.Array, pull: Scalar) -> jax.Array:
    drawn = draw_levels(x, levels, moved, pull)
    return clip_levels(x, levels, drawn, moved) if rules.stop_at_median else drawn


def _tune(rules: _Rules, oracle: Oracle, own: Own, shared: Params, key: Key) -> tuple[Own, Scalar]:
    """One step of fine tuning (Sec. 7.2): weights stay with their levels, levels and all that is not rounded learn."""
    x, c, memory, t = own
    eta1, eta2 = rate_at(rules.step_size, t), rate_at(rules.centers_step_size, t)
    loss, g, h = _through(rules._replace(sharpness=None), oracle, x, c, key)
    moved, memory = rules.descent.step(x, g, shared, memory, eta1)
    before, after = named_leaves(x), {name: c[name] - eta2 * h[name] for name in c}
    moved = replace_leaves(moved, {name: put(before[name], c[name], after[name]) for name in c})
    return Own(moved, {name: jnp.sort(after[name]) for name in c}, memory, t + 1), loss


def _through(rules: _Rules, oracle: Oracle, x: Params, c: Levels, key: Key) -> tuple[Scalar, Params, Levels]:
    """The loss at the rounded weights, and its gradients in the weights and in the levels."""
    rounded, pull_back = jax.vjp(lambda x, c: round_weights(x, c, rules.sharpness), x, c)
    loss, at_rounded = oracle.gradient(rounded, key)
    return loss, *pull_back(at_rounded)
