"""`idiolect list`: the names of everything a recipe can choose from, and where each comes from."""

import argparse
from typing import Any

from idiolect.commands.arguments import ask_for_code, import_named


def add(commands: Any) -> None:
    """Teach the command line `list`."""
    listing = commands.add_parser("list", help="name everything a recipe can choose from")
    listing.set_defaults(command=_list)
    ask_for_code(listing)


def _list(options: argparse.Namespace) -> int:
    from idiolect import catalog
    from idiolect.commands.option_texts import first_sentence
    from idiolect.commands.table_texts import TABLES
    from idiolect.experiments.recipe_files import builtin_recipes, recipe_source
    from idiolect.registry import REGISTRIES

    import_named(options)
    print("algorithms:")
    for name, cell in catalog.ALGORITHMS.items():
        _print(name, f"{cell.objective} + {cell.protocol}: {cell.source}")
    for kind, registry in REGISTRIES.items():
        print(f"{kind.replace('_', ' ')}:")
        for name in registry:
            _print(name, first_sentence(registry[name]), registry.source(name))
    print("tables of a recipe:")
    for name, table in TABLES.items():
        _print(name, first_sentence(table))
    print("recipes:")
    for name, text in builtin_recipes().items():
        _print(name, text, recipe_source(name))
    print(
        "Any other cell of objectives x protocols or peers is an algorithm too: write it objective+protocol, as "
        "maml+buffered. What is in brackets does not come with idiolect."
    )
    return 0


def _print(name: str, text: str, source: str = "idiolect") -> None:
    print(f"  {name:<20} {text}{'' if source == 'idiolect' else f' [{source}]'}")
