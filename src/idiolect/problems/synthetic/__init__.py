"""Families of clients whose constants and minimisers can be computed."""

from idiolect.problems.synthetic.locations import robust_location
from idiolect.problems.synthetic.quadratic_clients import quadratics
from idiolect.problems.synthetic.regressions import linear_regression, logistic_regression

__all__ = ["linear_regression", "logistic_regression", "quadratics", "robust_location"]
