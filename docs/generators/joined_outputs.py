"""What a command of a tutorial printed, in one piece.

A kernel hands it on in pieces of a hundred bytes, and myst-nb, asked to merge them, would end each with a new line.
"""

from typing import Any


def joined(outputs: list[Any]) -> list[Any]:
    """The outputs of a cell, with all that went to the same stream put together where its first piece is."""
    found: list[Any] = []
    streams: dict[str, Any] = {}
    for output in outputs or []:
        if output["output_type"] == "stream" and output["name"] in streams:
            streams[output["name"]]["text"] += output["text"]
            continue
        if output["output_type"] == "stream":
            streams[output["name"]] = output
        found.append(output)
    return found
