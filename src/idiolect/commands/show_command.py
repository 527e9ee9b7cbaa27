"""`idiolect show NAME`: what a name stands for, its options with bounds and defaults, or a recipe's text."""

import argparse
import textwrap
from typing import TYPE_CHECKING, Any

from idiolect.commands.arguments import ask_for_code, import_named
from idiolect.errors import UserMistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from idiolect.commands.option_texts import OptionText
    from idiolect.registry import Factory, Registry


def add(commands: Any) -> None:
    """Teach the command line `show`."""
    show = commands.add_parser("show", help="say what a name stands for, and which options it has")
    show.set_defaults(command=_show)
    show.add_argument(
        "name", metavar="NAME", help="of an algorithm, objective, protocol, problem, model, …, recipe or table of one"
    )
    ask_for_code(show)


def _show(options: argparse.Namespace) -> int:
    from idiolect import catalog
    from idiolect.commands.table_texts import TABLES
    from idiolect.experiments.recipe_files import builtin_recipes, recipe_source, recipe_text
    from idiolect.options import known
    from idiolect.registry import REGISTRIES

    import_named(options)
    name: str = options.name
    parts = name.split("+")
    composed = len(parts) == 2 and parts[0] in catalog.OBJECTIVES and catalog.combiners(parts[1]).get(parts[1])
    registries = [registry for registry in REGISTRIES.values() if name in registry]
    if name in catalog.ALGORITHMS or composed:
        _print_algorithm(name)
    for registry in registries:
        _print_entry(registry, name)
    if name in TABLES:
        _print_table(name)
    if name in builtin_recipes():
        print(f"# recipe {name} ({recipe_source(name)}); run it: idiolect run {name}\n{recipe_text(name)}")
    elif not (registries or name in TABLES or name in catalog.ALGORITHMS or composed):
        every = [*catalog.ALGORITHMS, *(one for registry in REGISTRIES.values() for one in registry), *TABLES]
        known([*dict.fromkeys([*every, *builtin_recipes()])], "NAME", name)
        raise UserMistake(f"NAME is '{name}'; `idiolect list` has all names")
    return 0


def _print_algorithm(name: str) -> None:
    from idiolect import catalog

    cell = catalog.cell(name)
    print(f"{name}: an algorithm, {cell.source}")
    steps = cell.local_steps or (1 if catalog.serverless(name) else 10)
    print(f"  {'without' if catalog.serverless(name) else 'with'} a server; {steps} local steps unless told otherwise")
    print("  how its clients descend: `idiolect show training` (local_steps or epochs, step_size, step_rule, …)")
    if cell.sharing.private:
        print(f"  private = {cell.sharing.private}, train_order = {cell.sharing.train_order}")
    for key, chosen, registry in (
        ("objective", cell.objective, catalog.OBJECTIVES),
        ("protocol", cell.protocol, catalog.combiners(cell.protocol)),
    ):
        own = cell.defaults if key == "objective" else cell.combining
        _print_options(f"{key} = {chosen} ({registry.source(chosen)})", registry[chosen], own)


def _print_entry(registry: "Registry", name: str) -> None:
    from idiolect import catalog

    kind = registry.one
    article = "an" if kind[0] in "aeio" else "a"
    factory = registry[name]
    _print_options(f"{name}: {article} {kind} ({registry.source(name)}, {factory.__module__})", factory, {})
    if registry is catalog.DELAY_LAWS:
        print("  in the table of a time, such as network.download: `idiolect show delay`")


def _print_table(name: str) -> None:
    from idiolect.commands.option_texts import first_sentence
    from idiolect.commands.table_texts import TABLES, table_texts

    print(f"{name}: a table of a recipe\n  {first_sentence(TABLES[name])}")
    _print_each(table_texts(name), {})


def _print_options(head: str, factory: "Factory", own: Any) -> None:
    """A factory's first sentence, and a paragraph for each of its options."""
    from idiolect.commands.option_texts import first_sentence, option_texts

    print(f"{head}\n  {first_sentence(factory)}")
    _print_each(option_texts(factory), own)


def _print_each(options: "Sequence[OptionText]", own: Any) -> None:
    for option in options:
        told = f"default {option.default}" if option.default else "must be given"
        if option.name in own:
            told = f"default here {own[option.name]!r}, else {option.default}"
        print(f"    {option.name}: {option.kind}; {told}")
        if option.about:
            print(textwrap.fill(option.about, 100, initial_indent=" " * 8, subsequent_indent=" " * 8))
