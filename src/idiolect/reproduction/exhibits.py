"""Every figure and table of the five documents, in their order."""

from idiolect.options import known
from idiolect.reproduction import memrl, pars_push, per_fedavg, persa_fl, qupel, ranking, rates, schedules
from idiolect.reproduction.exhibit import Exhibit

_ALL = (
    pars_push.FIG_1,
    pars_push.FIG_2,
    schedules.FIG_1,
    schedules.FIG_2A,
    persa_fl.FIG_2B,
    persa_fl.FIG_2C,
    rates.TABLE_1,
    per_fedavg.FIG_1,
    qupel.TABLE_1,
    qupel.TABLE_2,
    qupel.FIG_1,
    qupel.TABLE_3,
    ranking.SEARCH,
    memrl.FIG_1,
)
EXHIBITS = {exhibit.name: exhibit for exhibit in _ALL}


def find(name: str) -> Exhibit:
    """The exhibit of this name."""
    known(EXHIBITS, "exhibit", name)
    return EXHIBITS[name]
