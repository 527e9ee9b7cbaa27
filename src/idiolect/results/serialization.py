"""What is noted of a run as plain JSON values, and back again: numbers come back to the last bit."""

from typing import Any

import numpy as np

from idiolect.contracts import Scene
from idiolect.evaluation.scoring import ClientScore, Spread
from idiolect.experiments.recording import Moment, Notes, Point, Result
from idiolect.quantization.sizes import Size
from idiolect.quantization.views import LayerView

FORMAT = 3  # of what is written here; older cells are told apart by it


def cell_record(outcome: Result) -> dict[str, Any]:
    """An outcome as plain JSON values, without the arrays."""
    return {
        "format": FORMAT,
        "label": outcome.label,
        "seed": outcome.seed,
        "metric": outcome.metric.name,
        "higher_is_better": outcome.metric.higher_is_better,
        "also": {metric.name: metric.higher_is_better for metric in outcome.metrics[1:]},
        "seconds": outcome.seconds,
        "stopwatch": list(outcome.stopwatch),
        "ended": outcome.ended,
        **({"refusals": {str(c): why for c, why in outcome.refusals.items()}} if outcome.refusals else {}),
        "points": [_write_point(point) for point in outcome.points],
        "clients": [{**client._asdict(), **_write_size(outcome.sizes[client.client])} for client in outcome.clients],
        "scenes": [_write_moment(moment) for moment in outcome.scenes],
    }


def write_notes(notes: Notes) -> dict[str, Any]:
    """What was noted so far."""
    return {
        "points": [_write_point(point) for point in notes.points],
        "scored": [client._asdict() for client in notes.scored],
        "scenes": [_write_moment(moment) for moment in notes.scenes],
        "ended": notes.ended,
        "seconds": notes.seconds,
        "stopwatch": notes.stopwatch,
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
    )


def _write_point(point: Point) -> dict[str, Any]:
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
        record["reports"],
        {name: LayerView(**view) for name, view in record.get("layers", {}).items()},
    )


def _write_size(size: Size) -> dict[str, float]:
    return {"bits": size.bits, "bytes": size.total}


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
