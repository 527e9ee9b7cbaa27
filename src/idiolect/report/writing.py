"""The report of a run, or of several side by side, as one page that needs no network to open."""

from collections.abc import Sequence
from pathlib import Path

from idiolect.files import write_atomically
from idiolect.report.client_pictures import each_client, spread_pictures
from idiolect.report.gain_pictures import gain_section
from idiolect.report.level_pictures import level_pictures
from idiolect.report.map_pictures import map_pictures
from idiolect.report.over_time import over_time
from idiolect.report.overview import in_short, what_is_behind, what_ran
from idiolect.report.page import Section, page
from idiolect.report.peer_pictures import peer_pictures
from idiolect.report.report_data import ReportData, gather
from idiolect.report.waiting_pictures import waiting_section

PAGE = "report.html"


def write_report(paths: Sequence[Path], out: Path) -> Path:
    """Write the page of these run folders to `out`."""
    evidence = gather(paths)
    title = ", ".join(dict.fromkeys(run.name or run.recipe.name for run in evidence.runs))
    write_atomically(out, page(title, report_sections(evidence)).encode())
    return out


def report_sections(evidence: ReportData) -> list[Section]:
    """Everything there is to show, in the order in which it is asked for; families without pictures have no section."""
    families = [
        Section("Where policies go", pictures=map_pictures(evidence)),
        Section("Each client", pictures=each_client(evidence)),
        Section("Levels, weights and bytes", pictures=level_pictures(evidence)),
        Section("Without a server", pictures=peer_pictures(evidence)),
    ]
    return [
        what_ran(evidence),
        in_short(evidence),
        Section("Over time", pictures=over_time(evidence)),
        gain_section(evidence, spread_pictures(evidence)),
        waiting_section(evidence),
        *(section for section in families if section.pictures),
        what_is_behind(evidence),
    ]
