"""Reads back the figures of a page, as its script does."""

import json
import re
import zlib
from typing import Any

from idiolect.report.packed_texts import ALPHABET


def unpacked(told: str) -> str:
    """Five characters are four bytes, of which the last few may mean nothing, deflated."""
    words = [told[k : k + 5] for k in range(1, len(told), 5)]
    numbers = [sum(ALPHABET.index(sign) * 85 ** (4 - k) for k, sign in enumerate(word)) for word in words]
    data = b"".join(number.to_bytes(4, "big") for number in numbers)
    return zlib.decompress(data[: len(data) - int(told[0])], -zlib.MAX_WBITS).decode()


def drawings(page: str) -> list[dict[str, Any]]:
    """Every figure of a page: its data, layout and choices."""
    found = re.search(r"<script type=text/plain id=figures [^>]*>([^<]*)</script>", page)
    assert found
    return list(json.loads(unpacked(found[1])).values())
