"""A client's model as it is stored on its device: packed layers, and whole ones."""

import numpy as np

from idiolect.contracts import Compressed
from idiolect.device.packing import PackedLayer, pack
from idiolect.device.programs import MOST_LEVELS, Layer
from idiolect.errors import UserMistake
from idiolect.quantization.sizes import leaves_of


def stored_layers(compressed: Compressed) -> dict[str, PackedLayer]:
    """Every layer by name, as it is stored: packed where it is quantized, in float32 elsewhere."""
    leaves = leaves_of(compressed)
    levels = {name: np.asarray(values, np.float32) for name, values in compressed.levels.items()}
    whole = {name: np.asarray(leaf, np.float32) for name, leaf in leaves.items()}
    for name, values in [*levels.items(), *whole.items()]:
        if not np.isfinite(values).all():
            what = "a level" if values is levels.get(name) else "a weight"
            raise UserMistake(f"layer {name} has {what} that is not finite, so this model cannot be exported")
        if not values.size:
            raise UserMistake(f"layer {name} has no weights or no levels, so this model cannot be exported")
    return {
        name: _packed(name, leaf, levels[name]) if name in levels else whole_layer(leaf) for name, leaf in whole.items()
    }


def whole_layer(weights: np.ndarray) -> PackedLayer:
    """A layer in full precision."""
    return PackedLayer(Layer(weights.shape, 0), _matrix(weights).reshape(-1), np.zeros(0, np.uint8))


def _packed(name: str, weights: np.ndarray, levels: np.ndarray) -> PackedLayer:
    layer = Layer(weights.shape, levels.shape[-1], levels.ndim == 2 and weights.ndim in (2, 4))
    if levels.shape != ((layer.codebooks, layer.levels) if layer.by_output else (layer.levels,)):
        raise UserMistake(
            f"layer {name} has levels of shape {levels.shape}, but they must be a list of numbers, or a list for each "
            "output"
        )
    if layer.levels > MOST_LEVELS:
        raise UserMistake(f"layer {name} has {layer.levels} levels, but a bundle can have {MOST_LEVELS} in a codebook")
    # All weights in a row, or those of each output, and beside each row the levels that it has.
    rows, books = _matrix(weights).T if layer.by_output else weights.reshape(1, -1), np.sort(np.atleast_2d(levels))
    indices = np.stack([np.minimum(np.searchsorted(*pair), layer.levels - 1) for pair in zip(books, rows, strict=True)])
    if not np.array_equal(np.take_along_axis(books, indices, 1), rows):
        raise UserMistake(
            f"layer {name} has a weight that is none of its {layer.levels} levels; export rounded weights"
        )
    matrix = indices.T if layer.by_output else _matrix(indices.reshape(weights.shape))
    return PackedLayer(layer, books.reshape(-1), pack(matrix, layer.bits))


def _matrix(weights: np.ndarray) -> np.ndarray:
    """Inputs x outputs, as `Layer.matrix` says."""
    if weights.ndim == 4:
        return weights.reshape(len(weights), -1).T
    return weights if weights.ndim == 2 else weights.reshape(-1, 1)
