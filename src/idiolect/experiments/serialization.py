"""Records of a run as plain JSON values, and back again: numbers come back to the last bit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from idiolect.contracts import Scene
from idiolect.evaluation.scores import ClientScore, Spread
from idiolect.experiments.records import DISTANCE, CellRecord, ClientRecord, Moment, Notes, Point, ReferenceRecord
from idiolect.quantization.views import LayerView

FORMAT = 6  # of what is written here; older tables are told apart by it
_RENAMED = {"distance_to_optimum": DISTANCE}  # reports of earlier runs, which said less of what they are


def write_cell(cell: CellRecord) -> dict[str, Any]:
    """A cell as plain JSON values."""
    return {
        "label": cell.label,
        "seed": cell.seed,
        "metric": cell.metric,
        "higher_is_better": cell.higher_is_better,
        "also": cell.also,
        "seconds": cell.seconds,
        "stopwatch": list(cell.stopwatch),
        "ended": cell.ended,
        **({"diverged": True} if cell.diverged else {}),
        "shares": cell.shares,
        "server_steps": cell.server_steps,
        **({"refusals": {str(c): why for c, why in cell.refusals.items()}} if cell.refusals else {}),
        **({"refused_messages": write_links(cell.refused_messages)} if cell.refused_messages else {}),
        "points": [write_point(point) for point in cell.points],
        "clients": [client._asdict() for client in cell.clients],
        "scenes": [_write_moment(moment) for moment in cell.scenes],
    }


def read_cell(record: dict[str, Any]) -> CellRecord:
    """The same again."""
    apart = ("points", "clients", "scenes", "refusals", "refused_messages", "diverged")
    return CellRecord(
        **{name: record[name] for name in CellRecord._fields if name not in apart},
        diverged=record.get("diverged", False),
        points=[_read_point(point) for point in record["points"]],
        clients=[ClientRecord(**client) for client in record["clients"]],
        scenes=[_read_moment(moment) for moment in record["scenes"]],
        refusals={int(client): why for client, why in record.get("refusals", {}).items()},
        refused_messages={
            int(sender): {int(receiver): count for receiver, count in mine.items()}
            for sender, mine in record.get("refused_messages", {}).items()
        },
    )


def write_links(counts: Mapping[int, dict[int, int]]) -> dict[str, dict[str, int]]:
    """Numbers by sender and receiver, as plain JSON values."""
    return {str(sender): {str(to): count for to, count in mine.items()} for sender, mine in counts.items()}


def write_reference(reference: ReferenceRecord) -> dict[str, Any]:
    """What a reference scores, as plain JSON values."""
    return reference._asdict()


def read_reference(record: dict[str, Any]) -> ReferenceRecord:
    """The same again."""
    scores = {metric: {int(c): score for c, score in mine.items()} for metric, mine in record["scores"].items()}
    return ReferenceRecord(record["name"], record["seed"], scores, record.get("seconds", 0.0))


def write_notes(notes: Notes) -> dict[str, Any]:
    """What was noted so far."""
    return {
        "points": [write_point(point) for point in notes.points],
        "scored": [client._asdict() for client in notes.scored],
        "scenes": [_write_moment(moment) for moment in notes.scenes],
        "ended": notes.ended,
        "seconds": notes.seconds,
        "stopwatch": notes.stopwatch,
        "diverged": notes.diverged,
    }


def read_notes(record: dict[str, Any]) -> Notes:
    """The same again."""
    return Notes(
        [_read_point(point) for point in record["points"]],
        [ClientScore(**client) for client in record["scored"]],
        [_read_moment(moment) for moment in record["scenes"]],
        record["ended"],
        record["seconds"],
        record["stopwatch"],
        record.get("diverged", False),
    )


def write_point(point: Point) -> dict[str, Any]:
    """A point as plain JSON values, groups of clients beside each other."""
    return {
        "time": point.time,
        "updates": point.updates,
        **{group: {k: s._asdict() for k, s in scores.items()} for group, scores in point.scores.items()},
        "clients": {str(client): scores for client, scores in point.clients.items()},
        "reports": point.reports,
        **({"layers": {name: view._asdict() for name, view in point.layers.items()}} if point.layers else {}),
    }


def _read_point(record: dict[str, Any]) -> Point:
    groups = {group: record[group] for group in ("participating", "unseen") if group in record}
    return Point(
        record["time"],
        record["updates"],
        {group: {k: Spread(**s) for k, s in scores.items()} for group, scores in groups.items()},
        {int(client): scores for client, scores in record["clients"].items()},
        {_RENAMED.get(name, name): value for name, value in record["reports"].items()},
        {name: LayerView(**view) for name, view in record.get("layers", {}).items()},
    )


def _write_moment(moment: Moment) -> dict[str, Any]:
    views = {"received": moment.received, "adapted": moment.adapted}
    return {"time": moment.time, **{name: _write_scenes(scenes) for name, scenes in views.items()}}


def _write_scenes(scenes: dict[int, Scene]) -> dict[str, Any]:
    return {
        str(client): {name: np.asarray(values).tolist() for name, values in scene._asdict().items()}
        for client, scene in scenes.items()
    }


def _read_moment(record: dict[str, Any]) -> Moment:
    return Moment(record["time"], *(_read_scenes(record[name]) for name in ("received", "adapted")))


def _read_scenes(record: dict[str, Any]) -> dict[int, Scene]:
    return {
        int(client): Scene(np.asarray(scene["paths"]), np.asarray(scene["goal"])) for client, scene in record.items()
    }
