"""`idiolect compare RUN RUN …`: what differs between runs, and how sure that is."""

import argparse
import json
from pathlib import Path
from typing import Any


def add(commands: Any) -> None:
    """Teach the command line `compare`."""
    compare = commands.add_parser("compare", help="print differences between runs, paired over seeds and clients")
    compare.set_defaults(command=_compare)
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders; one: compare its algorithms")
    compare.add_argument("--against", metavar="LABEL", help="compare with this algorithm of the first run")
    compare.add_argument(
        "--split",
        choices=["global", "personalized", "own"],
        default="personalized",
        help="which model's scores: as received, personalized (default), or adapted as its objective prescribes",
    )
    compare.add_argument("--json", action="store_true", help="print JSON instead of tables")


def _compare(options: argparse.Namespace) -> int:
    from idiolect.comparison.rendering import as_json, print_comparison
    from idiolect.comparison.run_comparison import compare_runs

    found = compare_runs(options.runs, options.split, options.against)
    if options.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        print_comparison(found)
    return 0
