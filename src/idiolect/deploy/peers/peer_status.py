"""What a peer writes of itself, read again and told in words."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.errors import UserMistake
from idiolect.files import read_whole

_NUMBER = (int, float)
_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "running": bool,
    "written": _NUMBER,
    "incarnation": int,
    "round": int,
    "horizon": _NUMBER,
    "y": _NUMBER,
    "scores": dict,
    "resting": bool,
    "waiting": bool,
    "hears": dict,
    "refused": dict,
}


class PeerStatus(NamedTuple):
    """A peer as `status` shows it; `told` is what it last wrote of itself."""

    name: str
    lives: bool
    told: Mapping[str, Any]

    @property
    def doing(self) -> str:
        """What it does, in words."""
        if not self.told:
            return "starting" if self.lives else "never ran"
        if not self.lives:
            return f"dead since {time.time() - self.told['written']:.0f} s" if self.told["running"] else "has ended"
        if self.told["round"] >= self.told["horizon"] - 1:
            return "done"
        return "waits to be told" if self.told["waiting"] else "rests" if self.told["resting"] else "lives"

    @property
    def silent(self) -> dict[str, float]:
        """From whom it has not heard for how many seconds."""
        return {other: heard["silent"] for other, heard in self.told["hears"].items() if heard["silent"] is not None}


def read_peer_status(path: Path) -> dict[str, Any]:
    """What a peer last wrote of itself, or a sentence on what is wrong with that; nothing if it never wrote."""
    if not path.exists():
        return {}
    content = read_whole(path)
    try:
        told = dict(json.loads(content))
        wrong = [name for name, kind in _FIELDS.items() if not isinstance(told.get(name), kind)]
        wrong += [] if wrong or _has_numbers(told) else ["hears"]
    except (ValueError, TypeError, RecursionError):
        wrong = ["everything"]
    if wrong:
        raise UserMistake(f"{path} is damaged: it does not say its {wrong[0]} as a peer does")
    return told


def _has_numbers(told: Mapping[str, Any]) -> bool:
    values = [*told["scores"].values(), *told["refused"].values()]
    heard = list(told["hears"].values())
    if not all(isinstance(one, dict) and "silent" in one for one in heard):
        return False
    return all(isinstance(value, _NUMBER) for value in [*values, *(one["silent"] or 0 for one in heard)])
