"""What a run of the ServerApp is told, in `[tool.flwr.app.config]` or by `flwr run --run-config`; checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from idiolect.deploy.serving.turned_away import Rules
from idiolect.errors import UserMistake

_DEFAULTS: dict[str, Any] = {
    "recipe": "",
    "out": "",
    "algorithm": "",
    "data-dir": "",
    "updates": 0,
    "score-every": 0,
    "stale-after": Rules().stale_after,
    "patience": 3600.0,
}


class Settings(NamedTuple):
    """What is served, where, and until when."""

    recipe: str
    out: Path
    algorithm: str | None
    data_dir: Path | None
    updates: int | None  # None: until Flower stops the run
    rules: Rules
    patience: float  # seconds after which a letter without a reply is given up


def read_settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a run. Paths must be whole: nobody can tell in which folder Flower starts a ServerApp."""
    if unknown := config.keys() - _DEFAULTS.keys():
        raise UserMistake(f"run-config has '{min(unknown)}', but may have {', '.join(_DEFAULTS)}")
    found = {**_DEFAULTS, **config}
    for name, default in _DEFAULTS.items():
        _check(name, found[name], default)
    for name in ("recipe", "out"):
        if not found[name]:
            raise UserMistake(f"run-config lacks '{name}', such as {name} = \"/srv/idiolect/{name}\"")
    for name in ("out", "data-dir"):
        if found[name] and not Path(found[name]).is_absolute():
            raise UserMistake(f"run-config has {name} = '{found[name]}', but must have a path from the root on")
    rules = Rules(stale_after=found["stale-after"] or Rules().stale_after, score_every=found["score-every"])
    return Settings(
        found["recipe"],
        Path(found["out"]),
        found["algorithm"] or None,
        Path(found["data-dir"]) if found["data-dir"] else None,
        found["updates"] or None,
        rules,
        float(found["patience"]),
    )


def _check(name: str, value: Any, default: Any) -> None:
    if isinstance(default, str):
        if not isinstance(value, str):
            raise UserMistake(f"run-config has {name} = {value!r}, but must have a text")
        return
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not 0 <= value < 2**53:
        raise UserMistake(f"run-config has {name} = {value!r}, but must have a {'whole ' * whole}number, at least 0")
    if name == "patience" and value < 1:
        raise UserMistake(f"run-config has patience = {value!r}, but must have seconds, at least 1")
