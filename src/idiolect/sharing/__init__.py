"""Which part of a model travels, and which stays with its client."""

from idiolect.sharing.parts import join, private_leaves, split
from idiolect.sharing.private_parts import keep_private

__all__ = ["join", "keep_private", "private_leaves", "split"]
