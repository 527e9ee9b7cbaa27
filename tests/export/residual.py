"""A residual network written as plainly as can be, with the parameters of the catalog's: for the export to follow."""

import jax
import jax.numpy as jnp

from idiolect.problems.models import Model


def resnet(shape, classes, *, depth=20, width=16):
    """ResNet for small images, with shortcuts that have no parameters (option A)."""
    stage = (depth - 2) // 6
    widths = [width * 2**k for k in range(3) for _ in range(stage)]

    def init(key):
        blocks = [
            {"first": layer(n, m), "second": layer(m, m)} for n, m in zip([width, *widths[:-1]], widths, strict=True)
        ]
        head = {"weight": jnp.zeros((widths[-1], classes)), "bias": jnp.zeros(classes)}
        return [layer(shape[2], width), blocks, head]

    def apply(params, images, key=None):
        stem, blocks, head = params
        x = jax.nn.relu(normed(images, stem, 1))
        for number, block in enumerate(blocks):
            stride = 2 if number in (stage, 2 * stage) else 1
            out = normed(jax.nn.relu(normed(x, block["first"], stride)), block["second"], 1)
            missing = out.shape[-1] - x.shape[-1]
            pad = ((0, 0), (0, 0), (0, 0), (missing // 2, missing - missing // 2))
            x = jax.nn.relu(out + jnp.pad(x[:, ::stride, ::stride], pad))
        return x.mean((1, 2)) @ head["weight"] + head["bias"]

    return Model(init, apply)


def layer(fan_in, fan_out):
    norm = {part: jnp.zeros(fan_out) for part in ("scale", "offset", "mean", "variance")}
    return {"weight": jnp.zeros((fan_out, 3, 3, fan_in)), "norm": norm}


def normed(x, layer, stride):
    order = ("NHWC", "OHWI", "NHWC")
    x = jax.lax.conv_general_dilated(x, layer["weight"], (stride, stride), ((1, 1), (1, 1)), dimension_numbers=order)
    norm = layer["norm"]
    return (x - norm["mean"]) / jnp.sqrt(norm["variance"] + 1e-5) * norm["scale"] + norm["offset"]
