"""Data sets, their official files, and how rows are dealt to clients and cut into four parts."""

from idiolect.problems.data.client_splits import Shares, split_clients
from idiolect.problems.data.datasets import Images, load_images
from idiolect.problems.data.partitions import by_classes, dirichlet, iid, two_worlds

__all__ = ["Images", "Shares", "by_classes", "dirichlet", "iid", "load_images", "split_clients", "two_worlds"]
