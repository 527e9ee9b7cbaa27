"""Networks as pairs of pure functions, with convolutions in the form that CPUs run fast."""

from idiolect.problems.models.networks import Model, cnn, linear, mlp
from idiolect.problems.models.residual import resnet
from idiolect.problems.models.sequences import gru, transformer

__all__ = ["Model", "cnn", "gru", "linear", "mlp", "resnet", "transformer"]
