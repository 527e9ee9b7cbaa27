"""Any model in eight bits after training, activations too, as the runtimes of many makers want it (docs/devices.md).

This is not exact. How large activations become is seen on the client's own images.
"""

import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.export.onnx_file import with_digest
from idiolect.export.onnx_models import onnx_bytes, texts_of
from idiolect.export.plans import Plan


def int8_bytes(compressed: Compressed, plan: Plan, about: Mapping[str, Any], images: np.ndarray) -> bytes:
    """A model in eight bits, weights by channel and activations by what they are on these images (samples, ...)."""
    try:
        import onnx
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    except ImportError:
        raise UserMistake("int8 needs onnxruntime; install it by: pip install 'idiolect[onnx]'") from None
    if not len(images):
        raise UserMistake("int8 needs images of the client to see how large activations are, but it has none")

    class Images(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime asks for one of its own
        def __init__(self) -> None:
            self.waiting: Iterator[np.ndarray] = iter(images[:, None])

        def get_next(self) -> dict[str, np.ndarray] | None:
            image = next(self.waiting, None)
            return None if image is None else {"images": image}

    with tempfile.TemporaryDirectory() as folder:
        whole, small = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        whole.write_bytes(onnx_bytes(compressed, plan, about, form="float"))
        with _silence():  # it would advise the user on steps that are ours
            quantize_static(
                whole,
                small,
                Images(),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                weight_type=QuantType.QInt8,
                activation_type=QuantType.QUInt8,
            )
        return with_digest(onnx.load(small), texts_of(about, plan))


@contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
