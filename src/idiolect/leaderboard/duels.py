"""Comparisons that no number chose: the field's favourites with FedAvg and with nobody, each paper with its rival.

Differences of clients on the same seeds, by the mixed model of clients that are nested in seeds, both ways; corrected
after Holm for all duels of a table. A table of forty algorithms tells few apart from its best; these are told by
themselves.
"""

from collections.abc import Mapping
from typing import NamedTuple

from idiolect.comparison.contrasts import Scores, holm, two_sided
from idiolect.comparison.nesting import Nested, nested_difference
from idiolect.comparison.pairing import LEVEL

DUELS = (
    ("fedrep", "fedavg"),
    ("fedrep", "local"),
    ("ditto", "fedavg"),
    ("ditto", "local"),
    ("persa_fl_maml", "fedasync"),
    ("persa_fl_me", "fedasync"),
    ("per_fedavg", "fedavg"),
    ("pars_push", "rasgp"),
    ("qupel", "local_quantized"),
)


class Duel(NamedTuple):
    """Two algorithms of a table: by how much the first is above the second."""

    first: str
    second: str
    difference: Nested
    p: float  # two-sided, corrected for all duels of the table

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.p < LEVEL:
            return "not told apart"
        return "above" if self.difference.mean > 0 else "below"


def duels(sides: Mapping[str, Scores]) -> list[Duel]:
    """The duels both of whose sides have come to the end."""
    asked = [(first, second) for first, second in DUELS if first in sides and second in sides]
    found = [nested_difference(sides[first], sides[second]) for first, second in asked]
    ps = holm([two_sided(one.mean, one.p) for one in found])
    return [Duel(*pair, one, p) for pair, one, p in zip(asked, found, ps, strict=True)]
