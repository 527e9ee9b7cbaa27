"""Where models run: what each client's exported files took and gave, on the machine that exported them."""

from idiolect.report.headline import Rows
from idiolect.report.page import Section
from idiolect.report.report_data import ReportData
from idiolect.report.tables import as_html

_COLUMNS = ["algorithm, client", "runs in", "bytes on disk", "bytes in memory", "ms a sample", "accuracy"]
_CAPTION = (
    "Exported models, run on the machine that exported them, an image at a time, on the client's test rows. "
    "Memory is what a process takes more than one without a model."
)


def exports_section(data: ReportData) -> list[Section]:
    """The table, if anything was exported."""
    rows = [
        [
            f"{label}, client {one.client}",
            one.form,
            f"{one.disk:,}",
            "-" if one.resident is None else f"{one.resident:,}",
            f"{one.milliseconds:.3f}",
            "no rows" if one.accuracy is None else f"{one.accuracy:.3f}",
        ]
        for (label, _), measured in data.exports.items()
        for one in measured
    ]
    return [Section("Where models run", as_html(Rows(_COLUMNS, rows), _CAPTION))] if rows else []
