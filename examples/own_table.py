"""Your table: a CSV file with a column that says whose a row is, and a recipe that names it.

Every shop's customers react to price and weather in their own way, so that no single model suits all shops.
`python examples/own_table.py` writes the file and the recipe into a folder, runs four methods, and prints how they did.
The settings are round numbers and not tuned.
"""

import csv
import sys
from pathlib import Path

import numpy as np

import idiolect

SHOPS, DAYS = 10, 90
RECIPE = """
description = "Will a shop sell out today?"
horizon = {horizon}

[problem]
name = "table"
file = "{file}"
by = "shop"
features = ["price", "celsius", "weekend"]
target = "sold_out"
model = {{ name = "mlp", hidden = [16] }}

[training]
step_size = 0.1
batch_size = 16

[evaluation]
points = {points}
step_size = 0.1

[[algorithms]]
name = "local"

[[algorithms]]
name = "fedavg"

[[algorithms]]
name = "persa_fl_me"

[[algorithms]]
name = "pars_push"
"""


def write_table(path: Path) -> None:
    """A row for each shop and day."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["shop", "price", "celsius", "weekend", "sold_out"])
        for shop in range(SHOPS):
            likes_heat = rng.choice([-1, 1])
            for day in range(DAYS):
                price, celsius, weekend = rng.normal(3, 0.5), rng.normal(15, 8), int(day % 7 > 4)
                pull = likes_heat * (celsius - 15) / 8 - 2 * (price - 3) + weekend + 0.3 * rng.normal()
                table.writerow([f"shop {shop}", f"{price:.2f}", f"{celsius:.1f}", weekend, "yes" if pull > 0 else "no"])


def main(out: str = "runs/own-table", horizon: float = 200.0, points: int = 10) -> None:
    """Write the table and the recipe, run it, and show what came of it."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / "sales.csv")
    recipe = folder / "sales.toml"
    recipe.write_text(RECIPE.format(file=(folder / "sales.csv").as_posix(), horizon=horizon, points=points))
    run = idiolect.run(str(recipe), out=folder / "run")
    for label, found in run.summary.algorithms.items():
        print(f"{label}: {found.participating['own'].mean:.3f} of the days right")
    print(f"report: {folder / 'run' / 'report.html'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
