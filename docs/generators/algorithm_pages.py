"""A page for each algorithm of the catalog: words by hand, and all the rest from the catalog and the docstrings.

Words are in `docs/algorithms/words`, a file for each family. Options come from where `idiolect show` has them, the map
from a paper's lines to the code from the docstrings of the modules that implement them.
"""

import inspect
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from idiolect import catalog, sharing
from idiolect.commands.option_texts import first_sentence, option_texts
from idiolect.protocols import server_optimizers

WORDS = Path(__file__).parents[1] / "algorithms" / "words"
RUNS = WORDS.parent / "runs.json"


def families() -> list[dict[str, Any]]:
    """The families in the order of their files: title, about, recipe, and words for each algorithm."""
    return [tomllib.loads(path.read_text("utf-8")) for path in sorted(WORDS.glob("*.toml"))]


def pages() -> dict[str, str]:
    """The text of every page by its file's name, and of the table that the chapter begins with."""
    made, runs = {"table.txt": _table()}, json.loads(RUNS.read_text("utf-8"))
    for family in families():
        for name, words in family["algorithms"].items():
            made[f"{name}.md"] = _page(name, words, family, runs[name])
    return made


def recipes() -> dict[str, str]:
    """The recipe of every page, by algorithm."""
    return {name: recipe(name, words, family) for family in families() for name, words in family["algorithms"].items()}


def recipe(name: str, words: dict[str, Any], family: dict[str, Any]) -> str:
    """A recipe that runs this algorithm beside what it should be compared with."""
    lines = [f'[[algorithms]]\nname = "{name}"', *words.get("settings", [])]
    return f"{(words.get('recipe') or family['recipe']).strip()}\n\n" + "\n".join(lines) + "\n"


def _table() -> str:
    rows = []
    for family in families():
        head = "| algorithm | objective | protocol | from |\n| --- | --- | --- | --- |"
        rows += [f"## {family['title']}\n\n{family['about'].strip()}\n\n{head}"]
        for name, words in family["algorithms"].items():
            cell = catalog.cell(name)
            rows.append(
                f"| [{words['called']}]({name}.md) `{name}` | {_objective(cell)} | {cell.protocol} | {cell.source} |"
            )
        listed = "\n".join(family["algorithms"])
        rows[-1] += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return "\n".join(rows)


def _objective(cell: catalog.Cell) -> str:
    kept = {"last": "last layer", "body": "body"}
    private = " and ".join(kept.get(name, name) for name in cell.sharing.private)
    return cell.objective + (f", {private} private" if private else "")


def _page(name: str, words: dict[str, Any], family: dict[str, Any], run: dict[str, Any]) -> str:
    cell = catalog.cell(name)
    combine = catalog.combiners(cell.protocol)[cell.protocol]
    objective = catalog.OBJECTIVES[cell.objective]
    sections = [
        f"# {words['called']}\n\n`{name}` · {cell.source} · {family['title'].lower()}",
        f"**What it minimises.** {words['minimises'].strip()}",
        f"**How it combines.** {_escaped(first_sentence(combine))} {words.get('combines', '').strip()}",
        f"**When to take it.** {words['when'].strip()}",
        f"## A run of it\n\n```toml\n{recipe(name, words, family)}```\n\n"
        f"Write it to `{name}.toml` and run it: `idiolect run {name}.toml`. It comes to\n\n{_outcome(run)}",
        "## Options\n\n" + _settings(name, cell),
        _options("objective", cell.objective, objective, cell.defaults),
        _options("protocol", cell.protocol, combine, cell.combining),
        "## The papers' lines",
        *(_lines(module) for module in _modules(cell, objective, combine)),
    ]
    return "\n\n".join(sections) + "\n"


def _outcome(run: dict[str, Any]) -> str:
    """What a run of the recipe came to; `page_runs` has run it."""
    head = f"| {run['metric']} | as received | own model | worst tenth | updates |\n| --- | --- | --- | --- | --- |"
    rows = [
        f"| `{label}` | {row['received']:.3f} | {row['own']:.3f} | {row['worst']:.3f} | {row['updates']:,} |"
        for label, row in run["rows"].items()
    ]
    told = (
        "One seed, test parts, at the end. The own model is the one after the adaptation that the objective itself "
        "prescribes, the worst tenth that of its clients. Settings were chosen by hand, some of them after a look at "
        "such a run, and not alike for all, so this is no comparison; [the leaderboard](../leaderboard.md) is one."
    )
    return "\n".join([head, *rows]) + f"\n\n{told}"


def _settings(name: str, cell: catalog.Cell) -> str:
    peers = catalog.serverless(name)
    steps = cell.local_steps or (1 if peers else 10)
    told = f"{'Without' if peers else 'With'} a server; `training.local_steps` is {steps} unless told otherwise."
    if cell.sharing.private:
        private = ", ".join(f'"{pattern}"' for pattern in cell.sharing.private)
        told += f' `private = [{private}]`, `train_order = "{cell.sharing.train_order}"`.'
    return told + f" The same on the command line: `idiolect show {name}`."


def _options(key: str, chosen: str, factory: Any, own: Any) -> str:
    rows = [f"### {key} = {chosen}\n\n{_escaped(first_sentence(factory))}\n"]
    texts = option_texts(factory)
    if texts:
        rows.append("| option | is | default | |\n| --- | --- | --- | --- |")
    for option in texts:
        default = option.default or "must be given"
        if option.name in own:
            default = f"{_in_toml(own[option.name])} here, else {default}"
        rows.append(f"| `{option.name}` | {_escaped(option.kind)} | {_escaped(default)} | {_escaped(option.about)} |")
    return "\n".join(rows) if texts else rows[0] + "\nIt has no options."


def _in_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_in_toml(one)}" for key, one in value.items()) + " }"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _modules(cell: catalog.Cell, objective: Any, combine: Any) -> list[Any]:
    found = [sys.modules[inspect.unwrap(factory).__module__] for factory in (objective, combine)]
    if "server" in cell.combining:
        found.append(server_optimizers)
    if cell.sharing.private:
        found.append(sharing.private_parts)
    return found


def _lines(module: Any) -> str:
    """A module's docstring, under its own name."""
    source = "src/" + module.__name__.replace(".", "/") + ".py"
    return f"### `{source}`\n\n{_prose(inspect.getdoc(module) or '')}"


def _prose(text: str) -> str:
    """A docstring as Markdown: rows of its tables keep the bars that stand for norms and sizes."""
    lines = []
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
            lines.append(f"| {' | '.join(map(_escaped, cells))} |")
        else:
            lines.append(line if line.startswith("| ---") else _escaped(line))
    return re.sub(r"^(Deviations|Laws|Rebirth):", r"**\1:**", "\n".join(lines), flags=re.MULTILINE)


def _escaped(text: str) -> str:
    """Plain words, in which Markdown finds nothing to mark; what is in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    for k, part in enumerate(parts):
        parts[k] = part.replace("|", r"\|") if part.startswith("`") else re.sub(r"([|<>*_\[\]$~])", r"\\\1", part)
    return "".join(parts)
