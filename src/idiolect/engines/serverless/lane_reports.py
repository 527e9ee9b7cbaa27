"""Reports of a network at a pause: where its mass is, how far its agents are apart, and what has leaked."""

import jax
import numpy as np

from idiolect.contracts import Params
from idiolect.engines.serverless.mass_ledger import Stock

LEAK = 1e-6  # a share of the mass that no rounding explains


def mass_report(stock: Stock) -> dict[str, float]:
    """The mass of a lane, by where it is."""
    report = {}
    for where, mass in stock._asdict().items():
        report[f"y_{where}"] = float(mass.y)
        report[f"x_{where}"] = float(np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(mass.x))))
    return report


def consensus_gap(models: Params) -> float:
    """The root mean square distance of the agents from their average."""
    with np.errstate(all="ignore"):  # a run that has left the numbers is told of elsewhere
        squares = [((leaf - leaf.mean(0, dtype=np.float64)) ** 2).sum() / len(leaf) for leaf in jax.tree.leaves(models)]
        return float(np.sqrt(sum(squares)))


def leak_of(share: float) -> str:
    """A leak of mass that no rounding explains, in words; empty if there is none."""
    if abs(share) <= LEAK:
        return ""
    return f"{share:.3%} of the mass has leaked" if share > 0 else f"{-share:.3%} of the mass came from nowhere"
