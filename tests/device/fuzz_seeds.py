"""Small bundles of every kind for the fuzzer to change: `python -m tests.device.fuzz_seeds FOLDER`.

The header, which the C reader skips, is left out, so that changes meet what is read.
"""

import struct
import sys
from pathlib import Path

import jax
import numpy as np

from idiolect.contracts import uncompressed
from idiolect.export.bundle import bundle_bytes
from idiolect.export.plans import plan
from idiolect.problems.models import cnn, mlp, resnet
from tests.export.compressing import randomly, rounded

SHAPE, CLASSES = (8, 9, 2), 3
MODELS = {
    "mlp": ({"name": "mlp"}, mlp(SHAPE, CLASSES, hidden=(70, 5))),
    "cnn": ({"name": "cnn"}, cnn(SHAPE, CLASSES, channels=(3,), kernel=3, hidden=(17,))),
    "resnet": ({"name": "resnet"}, resnet(SHAPE, CLASSES, depth=8, width=2)),
}


def write_seeds(folder: Path) -> list[Path]:
    """Every kind of model at several widths, with a codebook for each layer or for each output."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (table, model) in MODELS.items():
        params = jax.tree.map(np.abs, randomly(model, 0))
        for levels, by_output in [*((n, False) for n in (0, 2, 3, 4, 8, 16, 200)), (2, True), (7, True)]:
            compressed = rounded(params, levels, ["last"], by_output) if levels else uncompressed(params)
            content = bundle_bytes(compressed, {}, plan(table, compressed.params, SHAPE, CLASSES))
            (length,) = struct.unpack_from("<Q", content)
            written.append(folder / f"{name}-{levels}{'-by-output' if by_output else ''}")
            written[-1].write_bytes(struct.pack("<Q", 0) + content[8 + length :])
    return written


if __name__ == "__main__":
    write_seeds(Path(sys.argv[1]))
