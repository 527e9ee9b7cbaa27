"""What became of an exhibit's claims, as a file: `claims.json` beside the exhibit's report."""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.papers.exhibit import Claim, Exhibit, ExhibitRecord, Findings, Request
from idiolect.papers.exhibit_page import report_page
from idiolect.papers.provenance import made_by
from idiolect.papers.trials import named

CLAIMS = "claims.json"


def folder_of(exhibit: Exhibit, request: Request) -> Path:
    """Where an exhibit's claims and report lie."""
    return request.out / named(exhibit.name, request, exhibit.scales[request.scale].seeds)


def command(exhibit: Exhibit, request: Request) -> str:
    """What a user types to get the same."""
    usual = exhibit.scales[request.scale].seeds
    seeds = "" if tuple(request.seeds) == usual else f" --seeds {','.join(map(str, request.seeds))}"
    return f"idiolect reproduce {exhibit.name} --scale {request.scale}{seeds}"


def reproduce(exhibit: Exhibit, request: Request) -> ExhibitRecord:
    """Run an exhibit, or what is missing of it; decide its claims; write them and the report."""
    folder, began = folder_of(exhibit, request), time.perf_counter()
    findings = exhibit.perform(request)
    seconds = findings.seconds
    if seconds is None:  # the time that it took at first: a second time it may find most of it done
        before = read_record(folder)
        seconds = time.perf_counter() - began if before is None else before.seconds
    record = ExhibitRecord(
        exhibit.name,
        exhibit.source,
        exhibit.shows,
        request.scale,
        exhibit.scales[request.scale].size,
        list(request.seeds),
        seconds,
        command(exhibit, request),
        list(findings.claims),
        made_by({run.name: run for run in findings.runs}),
    )
    _write(folder, record, findings)
    return record


def _write(folder: Path, record: ExhibitRecord, findings: Findings) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.html", report_page(record, findings, folder).encode())
    text = json.dumps(as_tables(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / CLAIMS, text.encode())


def read_record(folder: Path) -> ExhibitRecord | None:
    """What was found there, if anything was; numbers that were not finite are None."""
    file = folder / CLAIMS
    if not file.is_file():
        return None
    try:
        return from_tables(json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as reason:
        raise UserMistake(f"{file} cannot be read: {reason}; remove it to have it written again") from None


def as_tables(record: ExhibitRecord) -> dict[str, Any]:
    """A record as JSON has it."""
    plain: dict[str, Any] = _plain({**record._asdict(), "claims": [claim._asdict() for claim in record.claims]})
    return plain


def from_tables(tables: dict[str, Any]) -> ExhibitRecord:
    """The record that was written."""
    return ExhibitRecord(**{**tables, "claims": [Claim(**claim) for claim in tables["claims"]]})


def _plain(value: Any) -> Any:
    """Values as JSON has them: what is not finite is null."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
