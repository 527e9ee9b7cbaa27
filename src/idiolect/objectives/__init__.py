"""What a client minimises: its own loss, or something made from it."""

from idiolect.objectives.binary_relax import binary_relax
from idiolect.objectives.maml import maml
from idiolect.objectives.moreau import moreau
from idiolect.objectives.plain import plain
from idiolect.objectives.post_training import post_training
from idiolect.objectives.proximal import proximal
from idiolect.objectives.quantized import quantized

__all__ = ["binary_relax", "maml", "moreau", "plain", "post_training", "proximal", "quantized"]
