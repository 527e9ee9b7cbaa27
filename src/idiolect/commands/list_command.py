"""`idiolect list`: the names of everything a recipe can choose from."""

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Teach the command line `list`."""
    listing = commands.add_parser("list", help="name everything a recipe can choose from")
    listing.set_defaults(command=_list)


def _list(options: argparse.Namespace) -> int:
    from idiolect import catalog
    from idiolect.experiments.recipe_files import builtin_recipes

    sections = {
        "algorithms": {name: f"{c.objective} + {c.protocol}: {c.source}" for name, c in catalog.ALGORITHMS.items()},
        "objectives": {name: _first_sentence(factory) for name, factory in catalog.OBJECTIVES.items()},
        "protocols": {name: _first_sentence(factory) for name, factory in catalog.PROTOCOLS.items()},
        "problems": dict.fromkeys(catalog.IMAGES, "images")
        | {name: _first_sentence(factory) for name, factory in catalog.SYNTHETIC.items()},
        "partitions": {name: _first_sentence(factory) for name, factory in catalog.PARTITIONS.items()},
        "topologies": {name: _first_sentence(factory) for name, factory in catalog.TOPOLOGIES.items()},
        "models": {name: _first_sentence(factory) for name, factory in catalog.MODELS.items()},
        "recipes": builtin_recipes(),
    }
    for title, entries in sections.items():
        print(f"{title}:")
        for name, text in entries.items():
            print(f"  {name:<20} {text}")
    print(
        "Any other cell of objectives x protocols is an algorithm too: write it objective+protocol, as maml+buffered."
    )
    return 0


def _first_sentence(factory: object) -> str:
    return (factory.__doc__ or "").strip().splitlines()[0]
