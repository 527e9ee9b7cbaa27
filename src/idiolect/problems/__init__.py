"""Where a client's private loss f_i comes from: data sets, partitions, models, synthetic families, worlds to act in."""

from idiolect.problems.acting import acting_problem
from idiolect.problems.cartpole import cartpole
from idiolect.problems.classification import classification
from idiolect.problems.gymnasium_world import gymnasium_environment
from idiolect.problems.navigation import navigation, point_navigation
from idiolect.problems.quadratics import quadratics
from idiolect.problems.ranking import ranking
from idiolect.problems.regression import linear_regression, logistic_regression
from idiolect.problems.robust_location import robust_location
from idiolect.problems.supervised import problem

__all__ = [
    "acting_problem",
    "cartpole",
    "classification",
    "gymnasium_environment",
    "linear_regression",
    "logistic_regression",
    "navigation",
    "point_navigation",
    "problem",
    "quadratics",
    "ranking",
    "robust_location",
]
