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
    if levels.ndim != 1:
        raise UserMistake(f"layer {name} has levels of shape {levels.shape}, but they must be a list of numbers")
    if len(levels) > MOST_LEVELS:
        raise UserMistake(f"layer {name} has {len(levels)} levels, but a bundle can have {MOST_LEVELS} for each layer")
    levels = np.sort(levels)
    indices = np.minimum(np.searchsorted(levels, weights), len(levels) - 1)
    if not np.array_equal(levels[indices], weights):
        raise UserMistake(f"layer {name} has a weight that is none of its {len(levels)} levels; export rounded weights")
    layer = Layer(weights.shape, len(levels))
    return PackedLayer(layer, levels, pack(_matrix(indices), layer.bits))


def _matrix(weights: np.ndarray) -> np.ndarray:
    """Inputs x outputs, as `Layer.matrix` says."""
    if weights.ndim == 4:
        return weights.reshape(len(weights), -1).T
    return weights if weights.ndim == 2 else weights.reshape(-1, 1)
