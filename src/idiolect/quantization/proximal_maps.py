"""The proximal maps of R(x, c): weights are drawn to their levels, levels to the medians of their weights.

K. Ozkara, N. Singh, D. Data, S. Diggavi. QuPeL. 2021, Sec. 7.1.

| QuPeL | code |
| --- | --- |
| (40): soft thresholding towards Q_c(y), by lambda eta1 / 2 | `draw_weights` |
| below (41): mu_j and the counts of weights above and below c_j | `draw_levels` |

Deviations: the map for the centers is printed with a minus before the counts, which would push a center away from its
median; the sentence below it, and minimising what is printed above it, ask for a plus.

Theorem 1 asks for exact maps; the one for the centers is first-order, so a level that has come to its median goes on
stepping to and fro across it, by `pull` times the weights it has. The paper prints this map and no other; `clip_levels`
ends its step at the median, which is our deviation where it is asked for. Both give the same while the median is
further away than the step, and the clipped one is what soft thresholding (40) does for weights.

Laws: `draw_weights` minimises (x - y)^2 / (2 eta1) + lambda R(x, c) exactly; `draw_levels` minimises the same with R
replaced by its tangent at the old levels. With one level per distinct weight neither moves anything. `clip_levels`
draws a level from where `moved` has it towards the median of its weights, and neither beyond nor away.
"""

import jax
import jax.numpy as jnp

from idiolect.contracts import Scalar
from idiolect.quantization.channels import by_codebook
from idiolect.quantization.quantizers import hard, nearest


def draw_weights(y: jax.Array, levels: jax.Array, pull: Scalar | float) -> jax.Array:
    """Move every weight towards its level by `pull` = lambda eta1 / 2, and not beyond."""
    level = hard(y, levels)
    return jnp.where(y >= level + pull, y - pull, jnp.where(y <= level - pull, y + pull, level))  # (40)


@by_codebook("levels")
def draw_levels(x: jax.Array, levels: jax.Array, moved: jax.Array, pull: Scalar | float) -> jax.Array:
    """Move every level of `moved` by `pull` = lambda eta2 / 2 for each of its weights, towards their median.

    Which weights belong to a level, and on which side of it they lie, is decided by the old `levels`.
    """
    mine = nearest(x, levels)[..., None] == jnp.arange(len(levels))
    side = jnp.sign(x[..., None] - levels)
    return moved + pull * jnp.where(mine, side, 0).sum(axis=tuple(range(x.ndim)))


@by_codebook("levels")
def clip_levels(x: jax.Array, levels: jax.Array, drawn: jax.Array, moved: jax.Array) -> jax.Array:
    """What `draw_levels` made of `moved`, but no level steps over the median of its weights.

    Of an even number of weights any point between the two middle ones is a median, and the step ends at the nearer.
    """
    flat = x.ravel()
    mine = nearest(flat, levels)[:, None] == jnp.arange(len(levels))
    ordered, count = jnp.sort(jnp.where(mine, flat[:, None], jnp.inf), axis=0), mine.sum(0)
    low, high = (_row(ordered, jnp.maximum(place, 0)) for place in ((count - 1) // 2, count // 2))
    ends = jnp.where(drawn > moved, jnp.maximum(moved, low), jnp.minimum(moved, high))  # the first median on the way
    clipped = jnp.where(drawn > moved, jnp.minimum(drawn, ends), jnp.maximum(drawn, ends))
    return jnp.where(count > 0, clipped, drawn)


def _row(ordered: jax.Array, places: jax.Array) -> jax.Array:
    return jnp.take_along_axis(ordered, places[None], axis=0)[0]
