"""Objectives, what a client minimises: its own loss, or something made from it."""

from idiolect.objectives.meta_learning import maml
from idiolect.objectives.mixed_model import apfl
from idiolect.objectives.moreau_envelope import moreau
from idiolect.objectives.personal_model import ditto
from idiolect.objectives.plain_loss import plain
from idiolect.objectives.proximal_loss import proximal
from idiolect.objectives.quantized_model import quantized
from idiolect.objectives.relaxation import binary_relax
from idiolect.objectives.rounding import post_training

__all__ = ["apfl", "binary_relax", "ditto", "maml", "moreau", "plain", "post_training", "proximal", "quantized"]
