"""Changes by personalization, client by client: before, after, who loses, and what that goes along with."""

import math
from typing import NamedTuple

import numpy as np

from idiolect.report.client_traits import TRAITS, Traits
from idiolect.report.report_data import PageCell, ReportData

_FEWEST = 4  # pairs, below which a rank correlation says nothing


class Change(NamedTuple):
    """A participating client of a cell: its model as received, and personalized. A gain is good, a loss negative."""

    seed: int
    client: int
    before: float
    after: float
    gain: float
    worst: bool  # whether it is in the worst decile of its seed, personalized
    traits: Traits


class Tally(NamedTuple):
    """What personalization does to the clients of one algorithm, all seeds together."""

    clients: int
    hurt: int
    mean_gain: float
    mean_loss: float  # among those that lose, as a positive number
    worst_gain: float  # mean over the worst deciles
    ranks: dict[str, float]  # Spearman's correlation of the gain with each trait; nan where there is none


def changes(data: ReportData) -> dict[str, list[Change]]:
    """By algorithm, of all cells that did not end before their time; empty where both models are the same."""
    found: dict[str, list[Change]] = {}
    for cell in data.cells:
        if not cell.record.ended and cell.before != cell.after:
            found.setdefault(cell.label, []).extend(_of_cell(cell, data))
    return {label: mine for label, mine in found.items() if mine}


def tally(mine: list[Change]) -> Tally:
    """Count and average."""
    gains = np.array([change.gain for change in mine])
    losses = -gains[gains < 0]
    worst = [change.gain for change in mine if change.worst]
    return Tally(
        len(mine),
        len(losses),
        float(gains.mean()),
        float(losses.mean()) if len(losses) else 0.0,
        float(np.mean(worst)),
        {name: _rank_correlation(gains, trait_column(mine, name)) for name in TRAITS},
    )


def trait_column(mine: list[Change], name: str) -> np.ndarray:
    """One trait of all clients; nan where it is not known."""
    values = [getattr(change.traits, name) for change in mine]
    return np.array([math.nan if value is None else value for value in values])


def _of_cell(cell: PageCell, data: ReportData) -> list[Change]:
    seed, mine = cell.record.seed, cell.record.participating
    sign = 1 if cell.record.higher_is_better else -1
    after = np.array([client.scores[cell.after] for client in mine])
    worst = {mine[k].client for k in np.argsort(sign * after, kind="stable")[: max(1, round(len(mine) / 10))]}
    traits = data.traits[cell.label, seed]
    return [
        Change(
            seed,
            client.client,
            before := client.scores[cell.before],
            score,
            sign * (score - before),
            client.client in worst,
            traits[client.client],
        )
        for client, score in zip(mine, after.tolist(), strict=True)
    ]


def _rank_correlation(gains: np.ndarray, trait: np.ndarray) -> float:
    from scipy import stats  # which takes a third of a second

    both = np.isfinite(gains) & np.isfinite(trait)
    gains, trait = gains[both], trait[both]
    if len(gains) < _FEWEST or np.ptp(gains) == 0 or np.ptp(trait) == 0:
        return math.nan
    return float(stats.spearmanr(gains, trait).statistic)
