"""Learned levels on a uniform grid of sixteen places, as onnxruntime's `MatMulNBits` has them. This is not exact."""

from typing import Any, NamedTuple

import numpy as np

from idiolect.device.packing import PackedLayer

_PLACES, _MIDDLE = 16, 8
_BLOCK = 128  # inputs that share a scale in `MatMulNBits`; here, all of a layer's are equal


def fit_grid(levels: np.ndarray, counts: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Scale, zero and the place of each level on `scale * (place - zero)`, with the least squares over all weights."""
    best: tuple[float, float, float, np.ndarray] | None = None
    width = np.ptp(levels) or 1.0
    weigh = counts / counts.sum()
    for steps in range(1, _PLACES):
        places = np.rint((levels - levels.min()) / width * steps)
        # The best line through the levels at these places, in closed form.
        middle, mean = (weigh * places).sum(), (weigh * levels).sum()
        spread = (weigh * (places - middle) ** 2).sum()
        scale = (weigh * (places - middle) * (levels - mean)).sum() / spread if spread else 1.0
        loss = (weigh * (scale * (places - middle) + mean - levels) ** 2).sum()
        if scale > 0 and (best is None or loss < 0.999 * best[0]):  # rather few places than many that are no better
            best = (float(loss), float(scale), float(middle - mean / scale), places.astype(np.uint8))
    assert best is not None
    return best[1:]


class FourBits(NamedTuple):
    """A dense layer as `MatMulNBits` wants it: packed places, and the scale of `scale * (place - 8)`.

    The grid's own zero lies elsewhere, between two places; `shift` times the sum of the inputs makes up for that. Where
    every output has levels of its own, it has a grid and a shift of its own, too.
    """

    packed: np.ndarray
    scales: np.ndarray
    shift: np.ndarray  # of all outputs, or of each
    attributes: dict[str, Any]


def four_bits(layer: PackedLayer) -> FourBits:
    """A dense layer with its levels on the nearest grid."""
    rows, columns = layer.layer.matrix
    indices, books = layer.indices().T, np.atleast_2d(layer.codebooks()).astype(np.float64)
    shared = indices.reshape(len(books), -1)  # the weights of each codebook
    grids = [fit_grid(book, np.bincount(own, minlength=len(book))) for book, own in zip(books, shared, strict=True)]
    blocks = -(-rows // _BLOCK)
    moved = np.zeros((columns, blocks * _BLOCK), np.uint8)  # beyond the last input, nothing counts
    places = [place[own] for (_, _, place), own in zip(grids, shared, strict=True)]
    moved[:, :rows] = np.stack(places).reshape(columns, rows)
    packed = (moved[:, ::2] | moved[:, 1::2] << 4).reshape(columns, blocks, _BLOCK // 2)
    scales = np.repeat([scale for scale, _, _ in grids], columns // len(grids) * blocks).astype(np.float32)
    shift = np.array([scale * (_MIDDLE - zero) for scale, zero, _ in grids], np.float32)
    return FourBits(packed, scales, shift, {"K": rows, "N": columns, "bits": 4, "block_size": _BLOCK})
