"""The tables of a recipe in words: their keys, what each may be, its bounds and its default."""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from idiolect.commands.option_texts import OptionText, arguments, in_words, value_in_words
from idiolect.contracts import LocalOptimizer, Screening, StepRule
from idiolect.evaluation.neighbours import Neighbours
from idiolect.experiments.recipe_tables import Evaluation, NamedAlgorithm, Start, Table, Training
from idiolect.experiments.value import Experiment
from idiolect.network.delays import Delay, Network
from idiolect.network.unreliable_links import Links
from idiolect.protocols.attacks import Attack
from idiolect.registry import Choice

# By the name that a recipe has for each; `recipe` is what stands before all of them.
TABLES: dict[str, type] = {
    "recipe": Experiment,
    "algorithms": NamedAlgorithm,
    "training": Training,
    "step_rule": StepRule,
    "optimizer": LocalOptimizer,
    "evaluation": Evaluation,
    "neighbours": Neighbours,
    "network": Network,
    "delay": Delay,
    "links": Links,
    "screening": Screening,
    "attack": Attack,
    "start": Start,
}


_TEXTS = {
    ("recipe", "problem"): "table of name and options; the problems are in `idiolect list`",
    ("recipe", "topology"): "table of name and options; the topologies are in `idiolect list`",
    ("recipe", "timeline"): "path of a table that was saved",
    ("recipe", "chosen"): "table of split, seeds, trials, search, scores, note",
    ("delay", "law"): "name of one of the delay laws in `idiolect list`",
    ("start", "pretrain"): "table like one of the algorithms",
}


def table_texts(name: str) -> list[OptionText]:
    """Every key of a recipe's table."""
    table = TABLES[name]
    about, default = arguments(table), _defaults(table)
    hints = get_type_hints(table, include_extras=True)
    return [OptionText(key, _kind(name, key, hints[key]), default(key), said) for key, said in about.items()]


def _kind(name: str, key: str, hint: Any) -> str:
    """What a value must be; a table that can be asked for by itself is named as such."""
    if key in TABLES and key != name:
        return f"table: `idiolect show {key}`"
    if hint is Delay or Delay in get_args(hint):
        return "table: `idiolect show delay`"
    return _TEXTS.get((name, key)) or in_words(hint)


def _defaults(table: type) -> Callable[[str], str]:
    """What a key is if nothing is said: nothing where it must be given."""
    if issubclass(table, Table):
        fields = table.model_fields
        return lambda key: "" if fields[key].is_required() else _said(key, fields[key].get_default())
    defaults = getattr(table, "_field_defaults", None) or {key: getattr(table, key) for key in arguments(table)}
    return lambda key: _said(key, defaults[key]) if key in defaults and defaults[key] != () else ""


def _said(key: str, default: Any) -> str:
    if isinstance(default, Choice):
        flat = {"name": default.name, **default.options}
        return "{ " + ", ".join(f"{one} = {value_in_words(value)}" for one, value in flat.items()) + " }"
    tables = isinstance(default, Table) or (key in TABLES and default is not None)
    return "its own defaults" if tables else "empty" if default == {} else value_in_words(default)
