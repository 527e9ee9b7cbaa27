"""`idiolect report`: one page of a run, or of several side by side."""

import argparse
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Teach the command line `report`."""
    report = commands.add_parser("report", help="write one HTML page of a run, or of several side by side")
    report.set_defaults(command=_report)
    report.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    report.add_argument(
        "--out", type=Path, metavar="FILE", help="default: report.html in the run's folder; of several, here"
    )


def _report(options: argparse.Namespace) -> int:
    from idiolect.report.writing import PAGE, write_report

    only = options.runs[0] if len(options.runs) == 1 else Path()
    print(f"Report: {write_report(options.runs, options.out or only / PAGE)}")
    return 0
