"""A run on disk: its folder, what goes into it, and what it came to."""

from idiolect.runs.execute import run_recipe

__all__ = ["run_recipe"]
