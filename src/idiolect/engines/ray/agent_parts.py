"""Parts of a network of agents: its layout and its state cut into as many as there are actors, and put together again.

A part has the agents of some places of every lane, one beside the other; the links that lead to them, at whose end
memories lie; and the voices of all that these agents hear, their own first. So half a round of a part is that of the
whole network, on fewer rows.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from idiolect.contracts import PyTree
from idiolect.engines.serverless.layout import Layout, State

_Rows = Literal["agents", "links", "voices"]
_LINKS = {"memories", "refused"}  # the fields of a state with a row for each link; the others have one for each agent


class Part(NamedTuple):
    """Which rows of the whole network a part has, each in order."""

    places: np.ndarray  # of its agents, in each lane
    agents: np.ndarray
    links: np.ndarray  # that lead to them, without the last one, which leads nowhere
    voices: np.ndarray  # its agents, then others that they hear


@dataclass(frozen=True, eq=False)
class Setting:
    """What an actor is told of its part before the first round, beside the experiment: text, numbers and arrays."""

    label: str
    seeds: tuple[int, ...]
    places: np.ndarray
    crowd: int  # agents of a lane
    ring: int
    voices: np.ndarray  # which of all agents they are
    speaks: np.ndarray  # rounds x its agents: whose messages are taken in elsewhere
    arrays: dict[str, np.ndarray]  # of its layout
    numbers: list[np.ndarray]

    @property
    def name(self) -> tuple[Any, ...]:
        """By which an actor tells one network from another."""
        return self.label, self.seeds


def parts_of(sources: np.ndarray, targets: np.ndarray, lanes: int, agents: int, count: int) -> list[Part]:
    """The parts of a network, in which neighbours by number stay together; no part is empty.

    Example:
        >>> import numpy as np
        >>> from idiolect.engines.ray.agent_parts import parts_of
        >>> ring, nobody = np.array([3, 0, 1, 2, 0]), np.array([0, 1, 2, 3, 4])
        >>> [part.voices.tolist() for part in parts_of(ring, nobody, lanes=1, agents=4, count=2)]
        [[0, 1, 3], [2, 3, 1]]
    """
    share, parts = agents // lanes, []
    for places in np.array_split(np.arange(share), min(count, share)):
        mine = (np.arange(lanes)[:, None] * share + places).reshape(-1)
        links = np.flatnonzero(np.isin(targets[:-1], mine))
        parts.append(Part(places, mine, links, np.append(mine, np.setdiff1d(sources[links], mine))))
    return parts


def heard_from(parts: list[Part]) -> list[list[int]]:
    """For each part, the numbers of the others that it hears."""
    return [
        [number for number, other in enumerate(parts) if other is not part and np.isin(other.agents, part.voices).any()]
        for part in parts
    ]


def settings_of(layout: Layout, parts: list[Part], label: str, seeds: tuple[int, ...], ring: int) -> list[Setting]:
    """What each actor is told, from the layout of the whole network. It has nobody's data."""
    agents = len(layout.degrees)
    whole: dict[str, Any] = {
        name: np.asarray(value)
        for name, value in layout._asdict().items()
        if name not in {"rows", "keys", "numbers"} and value is not None
    }
    speaks = _heard_elsewhere(whole, parts, agents)
    numbers = [np.asarray(leaf) for leaf in jax.tree.leaves(layout.numbers)]
    return [
        Setting(
            label,
            seeds,
            part.places,
            agents // len(seeds),
            ring,
            part.voices,
            speaks[:, part.agents],
            _cut_layout(whole, part, agents),
            [leaf[part.agents] for leaf in numbers],
        )
        for part in parts
    ]


def _heard_elsewhere(whole: dict[str, np.ndarray], parts: list[Part], agents: int) -> np.ndarray:
    """Rounds x agents: whose message of that round is ever taken in by an agent of another part. No other travels."""
    home = np.zeros(agents + 1, int)
    for number, part in enumerate(parts):
        home[part.agents] = number
    found = np.zeros((len(whole["wakers"]), agents), bool)
    when, slot, place = np.nonzero(whole["links"] < len(whole["targets"]) - 1)
    link, sent = whole["links"][when, slot, place], when - whole["ages"][when, slot, place]
    source = whole["sources"][link]
    far = home[source] != home[whole["targets"][link]]
    found[sent[far], source[far]] = True
    return found


def _cut_layout(whole: dict[str, np.ndarray], part: Part, agents: int) -> dict[str, np.ndarray]:
    place, over = np.full(agents + 1, -1, np.int32), np.full(len(whole["targets"]), -1, np.int32)
    place[part.agents], over[part.links] = np.arange(len(part.agents)), np.arange(len(part.links))
    voice = np.zeros(agents, np.int32)
    voice[part.voices] = np.arange(len(part.voices))
    wakers, steps = _closed_up(place[whole["wakers"]], whole["step_sizes"], len(part.agents), least=1)
    links, ages = _closed_up(over[whole["links"]], whole["ages"], len(part.links), least=0)
    arrays = {
        "sources": np.append(voice[whole["sources"][part.links]], np.int32(0)),
        "targets": np.append(place[whole["targets"][part.links]], np.int32(len(part.agents))),
        "degrees": whole["degrees"][part.agents],
        "wakers": wakers,
        "step_sizes": steps,
        "links": links,
        "ages": ages,
        "seats": part.agents.astype(np.int32),
    }
    if "degrees_in" in whole:
        arrays["degrees_in"] = whole["degrees_in"][:, part.agents]
    return arrays


def _closed_up(who: np.ndarray, what: np.ndarray, nobody: int, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Lists in which those that are not of a part have -1: without them, in order, and filled up with nobody."""
    there = who >= 0
    counts = there.sum(-1)
    kept = np.arange(max(least, int(counts.max(initial=0)))) < counts[..., None]
    names, values = np.full(kept.shape, nobody, who.dtype), np.zeros(kept.shape, what.dtype)
    names[kept], values[kept] = who[there], what[there]
    return names, values


def rows_kinds(state: State) -> list[_Rows]:
    """What the rows of every leaf of a state stand for."""
    kinds: dict[str, _Rows] = {"spoken": "voices", **dict.fromkeys(_LINKS, "links")}  # voices come after rounds
    return [kinds.get(name, "agents") for name, field in state._asdict().items() for _ in jax.tree.leaves(field)]


def cut(leaf: np.ndarray, kind: _Rows, part: Part) -> np.ndarray:
    """The rows of a part. The link that leads nowhere is the last one of every part."""
    if kind == "voices":
        return leaf[:, part.voices]
    return leaf[part.agents] if kind == "agents" else leaf[np.append(part.links, len(leaf) - 1)]


def put_together(before: State, parts: list[Part], found: list[list[np.ndarray]]) -> State:
    """The state of all agents, from the leaves of every part; memory of its own, whatever happens to theirs."""
    whole: list[PyTree] = []
    leaves = jax.tree.leaves(before)
    for kind, leaf, *rows in zip(rows_kinds(before), leaves, *found, strict=True):
        new = np.array(leaf)
        for part, mine in zip(parts, rows, strict=True):
            if kind == "voices":
                new[:, part.agents] = mine[:, : len(part.agents)]
            elif kind == "agents":
                new[part.agents] = mine
            else:
                new[part.links] = mine[:-1]
        whole.append(new)
    state: State = jax.tree.unflatten(jax.tree.structure(before), whole)
    return state
