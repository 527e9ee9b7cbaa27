"""Problems, where a client's private loss f_i comes from.

`problem` makes one from a loss and arrays. `data` has data sets and how they are dealt, `models` networks, `synthetic`
families whose constants are known, `worlds` policies and environments, `ranking` searches and clicks.
"""

from idiolect.problems.images import classification
from idiolect.problems.supervised import problem

__all__ = ["classification", "problem"]
