"""What became of an exhibit's claims, as a file: `claims.json` beside the exhibit's report."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect.files import write_atomically
from idiolect.papers.exhibit import Exhibit, Findings, Request
from idiolect.papers.exhibit_page import report_page
from idiolect.papers.trials import named

Record = dict[str, Any]


def folder_of(exhibit: Exhibit, request: Request) -> Path:
    """Where an exhibit's claims and report lie."""
    return request.out / named(exhibit.name, request, exhibit.scales[request.scale].seeds)


def command(exhibit: Exhibit, request: Request) -> str:
    """What a user types to get the same."""
    usual = exhibit.scales[request.scale].seeds
    seeds = "" if tuple(request.seeds) == usual else f" --seeds {','.join(map(str, request.seeds))}"
    return f"idiolect reproduce {exhibit.name} --scale {request.scale}{seeds}"


def reproduce(exhibit: Exhibit, request: Request) -> Record:
    """Run an exhibit, or what is missing of it; decide its claims; write them and the report."""
    folder, began = folder_of(exhibit, request), time.perf_counter()
    findings = exhibit.perform(request)
    seconds = findings.seconds
    if seconds is None:  # the time that it took at first: a second time it may find most of it done
        seconds = (read_record(folder) or {}).get("seconds", time.perf_counter() - began)
    record = {
        "exhibit": exhibit.name,
        "source": exhibit.source,
        "shows": exhibit.shows,
        "scale": request.scale,
        "size": exhibit.scales[request.scale].size,
        "seeds": list(request.seeds),
        "seconds": seconds,
        "command": command(exhibit, request),
        "claims": [claim._asdict() for claim in findings.claims],
    }
    _write(folder, record, findings)
    return record


def _write(folder: Path, record: Record, findings: Findings) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.html", report_page(record, findings, folder).encode())
    text = json.dumps(_plain(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / "claims.json", text.encode())


def read_record(folder: Path) -> Record | None:
    """What was found there, if anything was."""
    file = folder / "claims.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def _plain(value: Any) -> Any:
    """Values as JSON has them: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
