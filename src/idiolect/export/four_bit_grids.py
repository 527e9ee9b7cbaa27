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

    The grid's own zero lies elsewhere, between two places; `shift` times the sum of the inputs makes up for that.
    """

    packed: np.ndarray
    scales: np.ndarray
    shift: float
    attributes: dict[str, Any]


def four_bits(layer: PackedLayer) -> FourBits:
    """A dense layer with its levels on the nearest grid."""
    rows, columns = layer.layer.matrix
    indices = np.searchsorted(layer.numbers, layer.weights())
    counts = np.bincount(indices.reshape(-1), minlength=len(layer.numbers))
    scale, zero, places = fit_grid(layer.numbers.astype(np.float64), counts)
    blocks = -(-rows // _BLOCK)
    moved = np.zeros((columns, blocks * _BLOCK), np.uint8)  # beyond the last input, nothing counts
    moved[:, :rows] = places[indices].T
    packed = (moved[:, ::2] | moved[:, 1::2] << 4).reshape(columns, blocks, _BLOCK // 2)
    scales = np.full(columns * blocks, scale, np.float32)
    return FourBits(
        packed, scales, scale * (_MIDDLE - zero), {"K": rows, "N": columns, "bits": 4, "block_size": _BLOCK}
    )
