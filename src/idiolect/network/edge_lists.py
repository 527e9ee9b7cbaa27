"""Links as users write them: pairs of agents, in Python or as text.

In a file, a `source target` pair on every line, separated by a space or a comma, with `#` before comments.
"""

import operator
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from idiolect.errors import UserMistake
from idiolect.files import read_whole

Pair: TypeAlias = tuple[int, int]

_PAIR = re.compile(r"(-?\d+)(?:\s*,\s*|\s+)(-?\d+)")


def read_edges(path: str) -> Iterable[tuple[str, Pair]]:
    """The pairs of a file, each with the place where it stands."""
    try:
        lines = read_whole(Path(path), "topology").decode("utf-8").splitlines()
    except UnicodeDecodeError as reason:
        raise UserMistake(f"topology {path} cannot be read: {reason}") from None
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = _PAIR.fullmatch(text)
        if not found:
            raise UserMistake(f"topology {path}, line {number} is '{text}', but must be two agents: source target")
        yield f"topology {path}, line {number}", (int(found[1]), int(found[2]))


def checked_link(where: str, edge: Any, agents: int) -> Pair:
    """A link between two of the agents; `where` is the place at which the user wrote it."""
    try:
        source, target = map(operator.index, edge)
    except (TypeError, ValueError):
        raise UserMistake(f"{where} is {edge!r}, but a link is a pair of agents: [source, target]") from None
    for agent in (source, target):
        if not 0 <= agent < agents:
            raise UserMistake(
                f"{where} is {[source, target]}, but there is no agent {agent}; "
                f"{agents} agents are numbered from 0 to {agents - 1}"
            )
    if source == target:
        raise UserMistake(f"{where} is {[source, target]}, but an agent has no link to itself; leave it out")
    return source, target
