"""What a device needs to use a model: readers of bundles that compute from packed weights.

This folder needs NumPy and nothing else, and imports nothing of the package around it: copy it onto the device, under
any name. `python -m device FILE` checks a bundle and says what is in it. In `c/` lies the same for C99.

A bundle is a safetensors file: eight bytes with the header's length, a JSON header, and three tensors end to end.
`program` says what is computed, operation by operation, each with the shapes of its layers (`programs`). `numbers` has
the levels of every quantized layer and the weights of every other one, `codes` the packed indices (`packing`), in the
order of the program. The header says where a model comes from and how its layers are called; computing needs neither.
"""

from .bundles import Bundle, BundleError, read_bundle
from .forward import predict

__all__ = ["Bundle", "BundleError", "predict", "read_bundle"]
