"""Typed records of a run: points in time, clients at the end, cells, references."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from idiolect.contracts import Scene
from idiolect.evaluation.scores import ClientScore, Group, Spread
from idiolect.quantization.views import LayerView

DISTANCE = "squared_distance_to_optimum"  # a report: the mean over clients, where the minimiser is known


class Point(NamedTuple):
    """A run at one moment: the scores of both groups of clients under every budget, and what clients reported."""

    time: float
    updates: int
    scores: dict[str, dict[str, Spread]]  # group -> "0", "1", …, "own" -> spread over clients
    clients: dict[int, dict[str, float]]  # client -> "0", "1", …, "own" -> score
    reports: dict[str, float]
    layers: dict[str, LayerView]  # of the first client with levels of its own, if there is one


class Moment(NamedTuple):
    """What the models of some clients do at one time: as received, and as their objective adapts them."""

    time: float
    received: dict[int, Scene]
    adapted: dict[int, Scene]


class ClientRecord(NamedTuple):
    """A client at the end of a run: its scores by budget, and the size of its own model on a device."""

    client: int
    group: Group
    samples: int  # that it is scored on
    scores: dict[str, float]  # "0", "1", …, "own" -> score
    also: dict[str, dict[str, float]]  # the same by the problem's further metrics
    bits: float  # a weight, on average
    bytes: int


class CellRecord(NamedTuple):
    """One algorithm on one seed, from start to end."""

    label: str
    seed: int
    metric: str
    higher_is_better: bool
    also: dict[str, bool]  # further metrics, and whether more of them is better
    seconds: float
    stopwatch: Sequence[float]  # seconds of work by each of the points
    ended: str  # why it came to nothing before its time, if it did
    shares: bool  # whether what clients send reaches anybody
    points: list[Point]
    clients: list[ClientRecord]
    scenes: Sequence[Moment] = ()
    refusals: Mapping[int, dict[str, int]] = {}  # by client, how many of its updates were not absorbed as sent, and why
    refused_messages: Mapping[int, dict[int, int]] = {}  # without a server, how many, by sender and receiver
    server_steps: int = 0  # versions of the shared model by the end; without a server, rounds
    diverged: bool = False  # whether it ended by its own fault, and not by an attack or for lack of mass

    @property
    def participating(self) -> list[ClientRecord]:
        """The clients that took part in training."""
        return [client for client in self.clients if client.group == "participating"]

    @property
    def scored(self) -> bool:
        """Whether it has any score; one that diverges at once has none."""
        return bool(self.clients)

    @property
    def end(self) -> Point:
        """The last point."""
        return self.points[-1]

    def scores_over(self, last: int, column: str) -> dict[int, float]:
        """Every scored client's mean score over the last evaluations, under a budget."""
        if last == 1:
            return {client.client: client.scores[column] for client in self.clients}
        counted = self.points[-last:]
        return {
            client.client: sum(point.clients[client.client][column] for point in counted) / len(counted)
            for client in self.clients
        }


class ReferenceRecord(NamedTuple):
    """What something that no algorithm here learns scores on one seed: metric -> client -> score."""

    name: str
    seed: int
    scores: dict[str, dict[int, float]]
    seconds: float = 0.0


class Notes(NamedTuple):
    """What a recorder holds so far; it goes into checkpoints."""

    points: list[Point]
    scored: list[ClientScore]  # at the last point
    scenes: list[Moment]
    ended: str
    seconds: float
    stopwatch: list[float]  # seconds by each of the points
    diverged: bool = False
