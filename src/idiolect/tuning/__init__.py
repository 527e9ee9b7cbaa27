"""Settings chosen on validation parts, by the same number of trials for every algorithm."""

from idiolect.tuning.search_space import Search, read_search
from idiolect.tuning.studies import Study, Trial, tune

__all__ = ["Search", "Study", "Trial", "read_search", "tune"]
