"""What the recipe on an algorithm's page comes to. It was run once, and pages show what was kept in runs.json.

`python docs/generators/page_runs.py` runs those whose recipe is no longer the one that was run; with names, these.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import idiolect.cli
from generators import algorithm_pages

KEPT = Path(__file__).parents[1] / "algorithms" / "runs.json"


def digest(recipe: str) -> str:
    """Of a recipe's text, by which what was run is recognised."""
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def run(recipe: str, folder: Path) -> dict[str, Any]:
    """Run a recipe in an empty folder; what its summary says of each algorithm, as a page tells it."""
    (folder / "page.toml").write_text(recipe, "utf-8")
    code = idiolect.cli.main(["run", str(folder / "page.toml"), "--out", str(folder / "run")])
    if code != 0:
        raise RuntimeError(f"the run ended with {code}")
    summary = json.loads((folder / "run" / "summary.json").read_text("utf-8"))
    rows = {label: _row(told) for label, told in summary["algorithms"].items()}
    return {"recipe": digest(recipe), "metric": summary["metric"], "rows": rows}


def _row(told: dict[str, Any]) -> dict[str, float]:
    scores = told["participating"]
    return {
        "received": round(scores["global"]["mean"], 3),
        "own": round(scores["own"]["mean"], 3),
        "worst": round(scores["own"]["worst_decile"]["mean"], 3),
        "updates": round(told["updates"]["mean"]),
    }


def main(names: list[str]) -> None:
    """Run what is asked for, and keep it; whoever stops it loses one."""
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    for name, recipe in algorithm_pages.recipes().items():
        if name in names or (not names and kept.get(name, {}).get("recipe") != digest(recipe)):
            with tempfile.TemporaryDirectory() as folder:
                kept[name] = run(recipe, Path(folder))
            KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
