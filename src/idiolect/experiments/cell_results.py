"""The result of one algorithm on one seed, with its models."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, TypeVar

import numpy as np

from idiolect.contracts import Compressed, Origin, Params, PyTree
from idiolect.errors import UserMistake
from idiolect.experiments.records import CellRecord, ClientRecord, Point
from idiolect.network import Timeline
from idiolect.network.round_tables import Rounds

T = TypeVar("T")


class ModelsAt(NamedTuple):
    """The models of a run at one of the times at which it was scored, before any adaptation.

    Without a server `models` are the agents' own z = x / y and `shared` is their average. With one, every client has
    the shared model, or, where nothing is shared, what it has trained alone.
    """

    time: float
    shared: Params
    models: Mapping[int, Params]  # of every client that takes part in training


class Result(NamedTuple):
    """One algorithm on one seed, from start to end, with its models."""

    record: CellRecord
    table: Timeline | Rounds
    params: Params  # the server's model at the end; the agents' average where there is no server
    personal: Mapping[int, PyTree]  # what stays on the clients at the end, where anything is kept
    compressed: Callable[[int], Compressed]  # a client's own model, as its objective prescribes, with its levels
    received: Callable[[int], Params]  # the model that a client has at the end, before it adapts it
    trajectory: Sequence[ModelsAt] = ()  # all models at every point, if they were asked for
    origin: Origin | None = None  # the library that the models come from, if not this one
    groups: PyTree = ()  # the models that clients choose from, where a server has several

    @property
    def label(self) -> str:
        """The algorithm."""
        return self.record.label

    @property
    def seed(self) -> int:
        """The seed."""
        return self.record.seed

    @property
    def points(self) -> list[Point]:
        """The run at every time at which it was scored."""
        return self.record.points

    @property
    def clients(self) -> list[ClientRecord]:
        """Every client that was scored, at the end."""
        return self.record.clients

    def model(self, client: int) -> Params:
        """A client's own model: what it received or kept, adapted as its objective prescribes."""
        return self.compressed(client).params

    def state_dict(self, client: int) -> dict[str, Any]:
        """A client's own model as the library it comes from stores it, with all that does not learn."""
        return whole_model(self.origin, self.model(client))

    def __repr__(self) -> str:
        return f"Result({self.label}, seed {self.seed}, {self.record.metric} {_headline(self.points)})"

    def _repr_html_(self) -> str:
        """Its last scores as a table, for notebooks."""
        title = f"<p>{escape(self.label)}, seed {self.seed}: {escape(self.record.metric)}"
        if not self.points:
            return f"{title}, not scored</p>"
        head = "<tr><th>clients<th>adaptation<th>mean<th>std<th>worst decile<th>clients scored</tr>"
        rows = [
            f"<tr><td>{escape(group)}<td>{escape(budget)}<td>{spread.mean:.4g}<td>{spread.std:.4g}"
            f"<td>{spread.worst_decile:.4g}<td>{spread.clients}</tr>"
            for group, scores in self.points[-1].scores.items()
            for budget, spread in scores.items()
        ]
        return f"{title} at time {self.points[-1].time:g}</p><table>{head}{''.join(rows)}</table>"


def known_client(ask: Callable[[int], T], total: int) -> Callable[[int], T]:
    """The same question about a client, refused in a sentence if there is no such client."""

    def asked(client: int) -> T:
        if not isinstance(client, int | np.integer) or not 0 <= client < total:
            raise UserMistake(f"client is {client!r}, but the clients are numbered from 0 to {total - 1}")
        return ask(int(client))

    return asked


def whole_model(origin: Origin | None, params: Params) -> dict[str, Any]:
    """All that the library a model comes from knows of it."""
    if origin is None:
        raise UserMistake("the problem's model comes from no other library, so it has no state dict; ask for model()")
    return origin.state_dict(params)


def _headline(points: Sequence[Point]) -> str:
    """The last scores of participating clients, before and after adaptation."""
    if not points:
        return "not scored"
    scores = points[-1].scores["participating"]
    return ", ".join(f"{spread.mean:.4g} ({budget})" for budget, spread in scores.items())
