"""The report of a run, or of several side by side, as one page that needs no network to open."""

from collections.abc import Sequence
from pathlib import Path

from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.report.client_pictures import each_client, spread_pictures
from idiolect.report.exports import exports_section
from idiolect.report.gain_pictures import gain_section
from idiolect.report.level_pictures import level_pictures
from idiolect.report.map_pictures import map_pictures
from idiolect.report.over_time import over_time
from idiolect.report.overview import files_section, headline_section, runs_section
from idiolect.report.page import Section, page
from idiolect.report.peer_pictures import peer_pictures
from idiolect.report.report_data import ReportData, read_report_data
from idiolect.report.waiting_pictures import waiting_section

PAGE = "report.html"


def write_report(paths: str | Path | Sequence[str | Path], out: str | Path) -> Path:
    """Write one page of a run, or of several side by side.

    Args:
        paths: A run folder or several.
        out: The HTML file.

    Returns:
        Where the page lies.

    Example:
        >>> import idiolect
        >>> mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 4}), ["fedavg"], horizon=40.0)
        >>> run = idiolect.run(mine, out=tmp / "reported")
        >>> idiolect.write_report([run.path], tmp / "page.html").name
        'page.html'
    """
    folders = [paths] if isinstance(paths, str | Path) else list(paths)
    if not folders:
        raise UserMistake("paths is empty, but must name at least one run folder")
    return write_page(read_report_data([Path(folder) for folder in folders]), Path(out))


def write_page(data: ReportData, out: Path) -> Path:
    """Write the page that shows all of this to `out`."""
    title = ", ".join(dict.fromkeys(run.name or run.experiment.name for run in data.runs))
    write_atomically(out, page(title, report_sections(data)).encode())
    return out


def report_sections(data: ReportData) -> list[Section]:
    """Everything there is to show, in the order in which it is asked for; families without pictures have no section."""
    families = [
        Section("Where policies go", pictures=map_pictures(data)),
        Section("Each client", pictures=each_client(data)),
        Section("Levels, weights and bytes", pictures=level_pictures(data)),
        Section("Without a server", pictures=peer_pictures(data)),
    ]
    return [
        headline_section(data),
        runs_section(data),
        Section("Over time", pictures=over_time(data)),
        gain_section(data, spread_pictures(data)),
        waiting_section(data),
        *(section for section in families if section.pictures),
        *exports_section(data),
        files_section(data),
    ]
