"""Trackers that listen to a run: TensorBoard, MLflow, Weights & Biases. One that fails never hurts the run."""

from idiolect.tracking.tracker_listener import TRACKERS, listening, values_of

__all__ = ["TRACKERS", "listening", "values_of"]
