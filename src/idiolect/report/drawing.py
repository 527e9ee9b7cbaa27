"""Figures as JSON: plain numbers with as many digits as an eye can tell, in a text that no page takes for its own."""

import base64
import json
import math
from typing import Any

import numpy as np

_DIGITS = 5


def plain(value: Any) -> Any:
    """Nested plain values; arrays become lists, numbers are rounded, and what is no number becomes a gap."""
    if isinstance(value, dict):
        if "bdata" in value:  # how plotly packs arrays
            return plain(_unpacked(value))
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return _rounded(value) if math.isfinite(value) else None
    return value


def as_json(value: Any) -> str:
    """JSON that ends no script and begins no tag, whatever the strings in it say."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _unpacked(packed: dict[str, Any]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(packed["bdata"]), packed["dtype"])
    shape = packed.get("shape")
    return values if shape is None else values.reshape([int(size) for size in str(shape).split(",")])


def _rounded(value: float) -> float | int:
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
