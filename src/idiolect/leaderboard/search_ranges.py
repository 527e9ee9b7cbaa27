"""Where settings are searched: a range for each option by its name, for whichever algorithm has such an option.

Only numbers that change how far steps go are searched, none that changes what a turn costs, so that the gradients of a
turn are known before it is tuned.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from idiolect import catalog
from idiolect.experiments.recipe_tables import NamedAlgorithm, OwnTraining
from idiolect.options import as_written
from idiolect.protocols import feddyn
from idiolect.tuning.search_space import Scale, Search


class Range(NamedTuple):
    """From where to where, on which scale; or choices."""

    scale: Scale
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()


LOCAL_STEPS = {"with": 10, "without": 1}  # a server: of a turn, or of a waking
_STEPS = Range("log", 0.003, 1.0)  # the lower end is for those that weigh their steps with a lambda
_FACTOR = 10.0  # how far to both sides of a default, for numbers whose size depends on what they weigh

TRAINING = {"step_size": _STEPS}
RANGES: dict[Literal["objective", "protocol"], dict[str, Range]] = {
    "objective": {
        "step_size": _STEPS,  # of a personal model, or of MAML's inner steps
        "mu": Range("log", 0.001, 1.0),
        "alpha": Range("linear", 0.1, 0.9),
    },
    "protocol": {
        "beta": Range("log", 0.1, 2.0),
        "alpha": Range("linear", 0.1, 0.9),
        "participation": Range("choice", choices=(0.25, 0.5, 1.0)),
        "size": Range("choice", choices=(2, 4, 10)),
        "staleness": Range("choice", choices=("constant", "polynomial")),
        "lambda": Range("log", 0.01, 1.0),  # how strongly models of their own are drawn to the average
    },
}
REGULARIZING = {feddyn.__name__: {"alpha": Range("log", 0.001, 1.0)}}  # where it is no share, as others' alpha is
# A server's optimizer has a step size in place of beta. Adaptive ones move every coordinate by about that much.
SERVERS = {"sgd": Range("log", 0.03, 2.0), **dict.fromkeys(("adam", "yogi", "adagrad"), Range("log", 0.001, 0.3))}
AROUND_DEFAULT = ("lambda", "lambda_p", "centers_step_size")  # of objectives; where it is zero it stays so


def searches(name: str) -> list[Search]:
    """What is searched for an algorithm: every option of its own that has a range."""
    written = [as_written(part) for part in catalog.options_of(name, {}, {})]
    found = [Search(name, "training", option, *where) for option, where in TRAINING.items()]
    own = REGULARIZING.get(catalog.cell(name).protocol, {})
    for part, options in zip(("objective", "protocol"), written, strict=True):
        ranges = {**_ranges(part, options), **{option: where for option, where in own.items() if option in options}}
        found += [Search(name, part, option, *where) for option, where in ranges.items()]  # type: ignore[arg-type]
    return found


def _ranges(part: str, options: Mapping[str, Any]) -> dict[str, Range]:
    fixed = {option: where for option, where in RANGES[part].items() if option in options}  # type: ignore[index]
    around = {
        option: Range("log", options[option] / _FACTOR, options[option] * _FACTOR)
        for option in AROUND_DEFAULT
        if part == "objective" and isinstance(options.get(option), float) and options[option] > 0
    }
    if options.get("server") is not None:
        fixed = {option: where for option, where in fixed.items() if option != "beta"}
        fixed["server.step_size"] = SERVERS[options["server"].name]
    return {**fixed, **around}


def line_of(name: str) -> NamedAlgorithm:
    """The algorithm as the catalog has it, with every option written out, and as many local steps as its rivals."""
    objective, protocol = map(as_written, catalog.options_of(name, {}, {}))
    steps = LOCAL_STEPS["without" if catalog.serverless(name) else "with"]
    return NamedAlgorithm(name=name, objective=objective, protocol=protocol, training=OwnTraining(local_steps=steps))
