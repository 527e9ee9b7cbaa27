"""Large texts inside a page, at a third of their size: deflated, and written in 85 plain characters.

Browsers inflate by themselves (`DecompressionStream`, in all of them since 2023), from files as well as from servers.
Four bytes are five characters, which is less than the usual base 64 takes. No character means anything to HTML.
"""

import zlib
from functools import cache

import numpy as np
from plotly.offline import get_plotlyjs

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%()*+,-./:;=?@[]^_{|}"


@cache
def packed_plotly() -> str:
    """Plotly, packed once for all pages of a process."""
    return packed(get_plotlyjs())


def packed(text: str) -> str:
    """The text as `unpacked` of page.js reads it: how many bytes at the end mean nothing, and the rest."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)  # raw, without a header
    data = squeezer.compress(text.encode()) + squeezer.flush()
    padding = -len(data) % 4
    words = np.frombuffer(data + bytes(padding), ">u4").astype(np.int64)
    places = words[:, None] // 85 ** np.arange(4, -1, -1) % 85
    return f"{padding}{np.frombuffer(ALPHABET.encode(), np.uint8)[places].tobytes().decode()}"
