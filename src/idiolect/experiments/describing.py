"""An experiment written as plain values: the text of a recipe, and the difference between two experiments.

What is named is written as it is named, with every option. What is one's own is described: numbers and texts as they
are, arrays by a digest of their content, functions by the importable name of what made them and by what they hold on
to. Code itself is not looked at: a function that keeps its name keeps its identity.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tomli_w
from pydantic import BaseModel

from idiolect.contracts import Algorithm
from idiolect.experiments.recipe_tables import NamedAlgorithm
from idiolect.experiments.value import Experiment
from idiolect.own_code import file_of
from idiolect.registry import Choice

OWN = "made_by"  # the key by which a described part is known: it cannot be built from its description


def describe(experiment: Experiment) -> dict[str, Any]:
    """The experiment as nested plain values, which TOML can hold."""
    parts = {f.name: getattr(experiment, f.name) for f in dataclasses.fields(experiment) if f.name != "algorithms"}
    if experiment.rounds is not None:  # which the horizon follows from
        parts["horizon"] = None
    order = ("name", "description", "factory", "seeds", "horizon", "rounds", "timeline", "problem")
    lines = [_line(line) for line in experiment.lines]
    found = {**{name: parts.pop(name) for name in order}, **parts, "algorithms": lines}
    return {name: plain(value) for name, value in found.items() if value is not None}


def write_experiment(experiment: Experiment) -> str:
    """The same as TOML. Where nothing in it is one's own, it is a recipe that can be read and run."""
    return tomli_w.dumps(describe(experiment))


def _line(line: NamedAlgorithm | Algorithm) -> Any:
    if isinstance(line, NamedAlgorithm):
        return line
    return {"name": line.name, OWN: "idiolect.contracts:Algorithm", **line._asdict()}


def plain(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """Tables, lists and values as TOML knows them; what is None is left out, and what is one's own is described."""
    if isinstance(value, str | bool | int | float):
        return value
    if id(value) in seen:
        return "itself"
    within = (*seen, id(value))
    if isinstance(identity := getattr(value, "identity", None), Mapping):  # it knows by itself what it is known by
        return plain({OWN: _importable(type(value)), **identity}, within)
    if isinstance(value, Choice):
        return {"name": value.name, **plain(value.options, within)}
    if isinstance(value, BaseModel):
        return plain(dict(value), within)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _array(value)
    if hasattr(value, "_asdict"):
        return plain(value._asdict(), within)
    if isinstance(value, Mapping):
        return {str(key): plain(inner, within) for key, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [plain(inner, within) for inner in value if inner is not None]
    if isinstance(value, set | frozenset):
        return sorted(plain(inner, within) for inner in value)
    return _function(value, within) if callable(value) else _object(value, within)


def _array(value: Any) -> str:
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.ascontiguousarray(np.asarray(value))
    return f"{array.dtype}{list(array.shape)} sha256:{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def _function(value: Callable[..., Any], seen: tuple[int, ...]) -> Any:
    if isinstance(value, functools.partial):
        held = {**{str(place): inner for place, inner in enumerate(value.args)}, **value.keywords}
        return _described(_importable(value.func), held, seen)
    function: Any = getattr(value, "__wrapped__", value)  # compiled, cached and decorated ones
    code, held = getattr(function, "__code__", None), {}
    if not isinstance(owner := getattr(function, "__self__", None), ModuleType | None):
        held["self"] = owner
    if code is not None:
        cells = function.__closure__ or ()
        held |= {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True) if _filled(cell)}
        held |= function.__kwdefaults__ or {}
        held |= {f"default{place}": default for place, default in enumerate(function.__defaults__ or ())}
    return _described(_importable(function), held, seen)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # it is a name that nothing has been given to
        return False


def _object(value: Any, seen: tuple[int, ...]) -> Any:
    if dataclasses.is_dataclass(value):
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        held = dict(getattr(value, "__dict__", {}))
    return _described(_importable(type(value)), held, seen)


def _described(name: str, held: Mapping[str, Any], seen: tuple[int, ...]) -> Any:
    kept = {key: inner for key, inner in held.items() if inner is not None}
    return {OWN: name, **plain(kept, seen)} if kept else {OWN: name}


def _importable(value: Any) -> str:
    module, name = getattr(value, "__module__", "?"), getattr(value, "__qualname__", type(value).__qualname__)
    return f"{file_of(value) or module}:{name}"


def is_described(tables: Any) -> bool:
    """Does any part of these tables merely describe what was made in Python?"""
    if isinstance(tables, Mapping):
        return OWN in tables or any(map(is_described, tables.values()))
    return isinstance(tables, list) and any(map(is_described, tables))


def difference(there: Any, here: Any, path: str = "") -> str:
    """Where two descriptions differ first, in words; empty if they do not."""
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        for key in dict.fromkeys([*there, *here]):
            where = f"{path}.{key}" if path else key
            if key not in there or key not in here:
                side, value = ("there", there[key]) if key in there else ("here", here[key])
                return f"{where} is {_short(value)} {side} only"
            if found := difference(there[key], here[key], where):
                return found
        return ""
    if isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            return f"{path} is {_short(there)} there and {_short(here)} here"
        pairs = zip(there, here, strict=True)
        return next(
            (found for k, pair in enumerate(pairs) if (found := difference(*pair, f"{path}.{_member(there, k)}"))), ""
        )
    return "" if there == here else f"{path} is {_short(there)} there and {_short(here)} here"


def _member(members: list[Any], place: int) -> str:
    """A member of a list by its label or name, if it has one."""
    one = members[place]
    return str(one.get("label") or one.get("name") or place) if isinstance(one, Mapping) else str(place)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
