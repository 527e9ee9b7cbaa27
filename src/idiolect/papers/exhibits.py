"""Every figure and table of the five documents, in their order."""

from idiolect.options import known
from idiolect.papers import (
    feature_scales,
    memrl_exhibits,
    pars_push_exhibits,
    per_fedavg_exhibits,
    persa_fl_exhibits,
    proposition_exhibit,
    quantizer_exhibits,
    qupel_exhibits,
    ranking_exhibits,
    rate_exhibits,
    round_exhibits,
    schedule_exhibits,
    stability_exhibit,
    theorem_exhibit,
    two_agents,
)
from idiolect.papers.exhibit import Exhibit

_ALL = (
    pars_push_exhibits.FIG_1,
    feature_scales.EXHIBIT,
    pars_push_exhibits.FIG_2,
    two_agents.EXHIBIT,
    proposition_exhibit.EXHIBIT,
    theorem_exhibit.EXHIBIT,
    schedule_exhibits.FIG_1,
    schedule_exhibits.FIG_2A,
    persa_fl_exhibits.FIG_2B,
    persa_fl_exhibits.FIG_2C,
    stability_exhibit.EXHIBIT,
    rate_exhibits.TABLE_1,
    per_fedavg_exhibits.FIG_1,
    per_fedavg_exhibits.FIG_1_SETTINGS,
    round_exhibits.THEOREM_4_5,
    quantizer_exhibits.TABLE_1,
    quantizer_exhibits.LEVELS,
    qupel_exhibits.TABLE_2,
    qupel_exhibits.FIG_1,
    qupel_exhibits.TABLE_3,
    ranking_exhibits.SEARCH,
    memrl_exhibits.FIG_1,
)
EXHIBITS = {exhibit.name: exhibit for exhibit in _ALL}


def find(name: str) -> Exhibit:
    """The exhibit of this name."""
    known(EXHIBITS, "exhibit", name)
    return EXHIBITS[name]
