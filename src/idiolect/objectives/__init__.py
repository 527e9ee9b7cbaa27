"""What a client minimises: its own loss, or something made from it."""

from idiolect.objectives.maml import maml
from idiolect.objectives.moreau import moreau
from idiolect.objectives.plain import plain
from idiolect.objectives.proximal import proximal

__all__ = ["maml", "moreau", "plain", "proximal"]
