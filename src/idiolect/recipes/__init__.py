"""Experiments as TOML: what a recipe may say, how it is read, and those that ship with the package."""

from idiolect.recipes.reading import builtin_recipes, load_recipe
from idiolect.recipes.tables import AlgorithmTable, Recipe, parse_recipe, write_recipe

__all__ = ["AlgorithmTable", "Recipe", "builtin_recipes", "load_recipe", "parse_recipe", "write_recipe"]
