"""Search ranking: users, queries, lists of candidates, and which one was clicked."""

from idiolect.problems.ranking.forest import Forest
from idiolect.problems.ranking.search_ranking import ranking

__all__ = ["Forest", "ranking"]
