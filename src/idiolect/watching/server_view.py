"""The page of a server for real devices, from the status that it writes every two seconds."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect.deploy.serving.serving_folder import STATUS
from idiolect.errors import UserMistake
from idiolect.files import read_whole
from idiolect.report.style import BLUE
from idiolect.watching.view import Figure, Table, View, ago

_SILENT = 15.0  # seconds after which a server that writes every two is thought to be gone
_MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class ServerReader:
    """Reads a server's folder again and again, and keeps how many updates it had when."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, dict[float, int]()

    def view(self) -> View:
        """What the page of a server shows."""
        path = self._path / STATUS
        if not path.exists():
            return View(self._path.name, "starting", f"the server in {self._path} has not yet said anything")
        try:
            told, age = json.loads(read_whole(path)), max(0.0, time.time() - path.stat().st_mtime)
            self._seen[float(told["seconds"])] = int(told["updates"])
            return self._view(told, age)
        except _MALFORMED as reason:
            if isinstance(reason, UserMistake):
                raise
            raise UserMistake(f"{path} is damaged: it is no status of a server") from None

    def _view(self, told: Mapping[str, Any], age: float) -> View:
        listens = age < _SILENT
        waits = sum(one["open"] is not None for one in told["devices"].values())
        status = (
            f"{told['updates']} updates of {len(told['devices'])} devices in {ago(told['seconds'])}; {waits} have the "
            f"model and compute; {'listening at' if listens else 'listened at'} {told['listens']}"
        )
        if not listens:
            status += f"; nothing for {ago(age)}: it has ended, or is dead; serve the same recipe with --out to go on"
        title = f"{told['experiment']}: {told['algorithm']}, seed {told['seed']}"
        refused = [
            [name, kind, str(why), str(int(count))]
            for kind in ("refusals", "turned_away")
            for name, mine in told[kind].items()
            for why, count in mine.items()
        ]
        tables = [Table("Devices", ("device", "client", "heard", "now", "last turn", "refused"), _devices(told))]
        if refused:
            tables.append(Table("What was refused", ("device", "kind", "why", "times"), refused))
        return View(title, "listening" if listens else "silent", status, (), tables, [self._updates()], not listens)

    def _updates(self) -> Figure:
        seen = sorted(self._seen.items())
        line = {"type": "scatter", "mode": "lines+markers", "line": {"color": BLUE, "shape": "hv"}, "name": "updates"}
        data = [line | {"x": [at for at, _ in seen], "y": [count for _, count in seen], "showlegend": False}]
        layout = {"xaxis": {"title": {"text": "seconds"}}, "yaxis": {"title": {"text": "updates"}}, "height": 360}
        return Figure("updates", "Updates that came", "As seen since this page was first asked for.", data, layout)


def _devices(told: Mapping[str, Any]) -> list[list[str]]:
    rows = []
    for name, one in told["devices"].items():
        heard = "" if one["heard"] is None else f"{ago(max(0.0, time.time() - float(one['heard'])))} ago"
        doing = "idle" if one["open"] is None else f"computes turn {one['open']}"
        last = "" if one["last"] is None else str(one["last"])
        rows.append([str(name), str(one["number"]), heard, doing, last, str(one["refused"])])
    return rows
