"""Changes of the code, one at a time, and whether the fast tests notice: `make mutants`.

Cosmic Ray makes the changes: another operator, another number, a comparison turned round, a loop that does not loop.
`tests.toml` says which tests should see each module. A change is tried on a copy of the repository, so that nothing
here is touched, and what was tried is kept in a file, so that a run that was stopped goes on.

A place is one operator, number or word of the code; of the changes that Cosmic Ray knows for a place one is drawn. The
types of arguments are left alone: they are not what runs.
"""

import argparse
import ast
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

HERE = Path(__file__).parent
ROOT = HERE.parent
PACKAGE = Path("src/idiolect")
NEEDED = ("src", "tests", "docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml")
IMPORTED = (
    "jax",
    "optax",
    "scipy.stats",
    "sklearn.datasets",
    "networkx",
    "pydantic",
    "plotly.graph_objects",
    "hypothesis",
)
PATIENCE, SLACK = 4.0, 30.0  # of a test run: so many times the work that it is without a change, and seconds more
NO_LIMIT = 3600.0  # seconds of work


class Place(NamedTuple):
    """Somewhere in a module that can be changed: line, column, and the changes that Cosmic Ray knows."""

    module: str
    line: int
    column: int
    changes: tuple[tuple[str, int], ...]  # operator and occurrence


class Tried(NamedTuple):
    """What became of one change."""

    module: str
    line: int
    column: int
    operator: str
    outcome: str  # killed, survived or timeout
    change: str  # the lines that differ


def places(module: str) -> list[Place]:
    """Every place of a module, in the order of its lines."""
    code = (ROOT / PACKAGE / module).read_text("utf-8")
    nodes, types = list(ast_nodes(get_ast(code))), _type_spans(code)
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if kind.arguments():
            continue
        starts = [start for node in nodes for start, _ in kind().mutation_positions(node)]
        for occurrence, start in enumerate(starts):
            if not any(begin <= start < end for begin, end in types):
                found.setdefault(start, []).append((name, occurrence))
    return [Place(module, *start, tuple(changes)) for start, changes in sorted(found.items())]


def _type_spans(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where the types of arguments and results stand, and the names of types."""
    spans = []
    for node in ast.walk(ast.parse(code)):
        kinds = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            kinds.append(node.value)
        for kind in kinds:
            if isinstance(kind, ast.expr):
                spans.append(((kind.lineno, kind.col_offset), (kind.end_lineno or 0, kind.end_col_offset or 0)))
    return spans


def drawn(modules: list[str], sample: int, seed: int) -> Iterator[tuple[Place, str, int]]:
    """A sample of all places, with one change of each."""
    rng = random.Random(seed)
    every = [place for module in modules for place in places(module)]
    for place in rng.sample(every, min(sample, len(every))):
        yield place, *rng.choice(place.changes)


def copied(target: Path) -> Path:
    """The repository's files that tests need, as they are now."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in NEEDED:
        source = ROOT / name
        skip = shutil.ignore_patterns("__pycache__")
        _ = shutil.copytree(source, target / name, ignore=skip) if source.is_dir() else shutil.copy(source, target)
    return target


def get_ready(out: Path) -> None:
    """Import what every test run needs but this package, and set how programs are compiled: runs are forks of this."""
    os.environ |= {
        "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_COMPILATION_CACHE_DIR": str(out / "compiled"),  # what is not changed is compiled once
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.03",
    }
    sys.dont_write_bytecode = True
    for name in IMPORTED:
        importlib.import_module(name)
    sys.path.insert(0, str(ROOT))
    importlib.import_module("tests.compiling").compile_in_a_hurry()
    sys.path.remove(str(ROOT))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # a run has its own


def pytest_run(copy: Path, tests: list[str], limit: float = NO_LIMIT) -> tuple[str, float]:
    """Whether these tests pass on the copy (survived, killed, or timeout), and the seconds of work that took.

    Work is counted and not the time that goes by: a machine that is busy with something else is no endless loop.
    """
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        os._exit(_in_child(copy, tests))
    _, status, used = os.wait4(child, 0)
    stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    outcome = "timeout" if stopped else "survived" if status == 0 else "killed"
    return outcome, used.ru_utime + used.ru_stime


def _in_child(copy: Path, tests: list[str]) -> int:
    os.chdir(copy)
    sys.path[:0] = [str(copy / "src"), str(copy)]
    os.environ["PYTHONPATH"] = f"{copy / 'src'}{os.pathsep}{copy}"
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    # Written so, "not slow" does not make the tests try out again how to compile.
    return int(pytest.main(["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not (slow)", *tests]))


def work_of(copy: Path, tests: list[str]) -> float:
    """The seconds of work that these tests take without a change; they must pass."""
    outcome, seconds = pytest_run(copy, tests)
    if outcome != "survived":
        raise SystemExit(f"these tests fail without a change: {' '.join(tests)}")
    return seconds


def tried(copy: Path, place: Place, operator: str, occurrence: int, tests: list[str], limit: float) -> Tried | None:
    """Make a change in the copy, test it, and take it back; None if Cosmic Ray cannot make it."""
    file = copy / PACKAGE / place.module
    code = file.read_text("utf-8")
    try:
        changed = mutate_code(code, plugins.get_operator(operator)(), occurrence)
    except AttributeError:  # it lists exceptions whose names have dots, and can only change those without
        return None
    file.write_text(changed, "utf-8")
    try:
        outcome, _ = pytest_run(copy, tests, limit)
    finally:
        file.write_text(code, "utf-8")
    lines = unified_diff(code.splitlines(), changed.splitlines(), n=0, lineterm="")
    difference = [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    return Tried(place.module, place.line, place.column, operator, outcome, "\n".join(difference))


def last_words(kept: Path) -> dict[tuple[str, int, int], Tried]:
    """What became of the change at each place, when it was tried last."""
    lines = kept.read_text("utf-8").splitlines() if kept.is_file() else []
    return {(each.module, each.line, each.column): each for each in (Tried(**json.loads(line)) for line in lines)}


def again(before: Tried) -> tuple[Place, str, int]:
    """The same change of the same place; the code must be what it was."""
    for place in places(before.module):
        if (place.line, place.column) == (before.line, before.column):
            for operator, occurrence in place.changes:
                if operator == before.operator:
                    return place, operator, occurrence
    raise SystemExit(
        f"{before.module}:{before.line} has changed since: delete its line from the file of what was tried"
    )


def main() -> None:
    """Draw, try, and keep what became of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=100, metavar="N", help="so many places (default: 100)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample (default: 0)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only modules whose path has this text")
    parser.add_argument("--again", action="store_true", help="try those once more that survived, and no others")
    parser.add_argument("--out", type=Path, default=ROOT / "runs/mutants", metavar="DIR", help="default: runs/mutants")
    options = parser.parse_args()
    tests = {m: t for m, t in tomllib.loads((HERE / "tests.toml").read_text())["tests"].items() if options.only in m}
    kept = options.out / f"seed{options.seed}.jsonl"
    copy = copied(options.out.resolve() / "copy")
    get_ready(options.out.resolve())
    known = last_words(kept)
    if options.again:
        waiting = [again(each) for each in known.values() if each.outcome == "survived" and each.module in tests]
    else:
        chosen = drawn(list(tests), options.sample, options.seed)
        waiting = [each for each in chosen if each[0][:3] not in known]
    usual: dict[str, float] = {}  # by tests: what they take without a change
    for number, (place, operator, occurrence) in enumerate(waiting, start=1):
        module, files = place.module, tests[place.module]
        together = " ".join(files)
        if together not in usual:
            usual[together] = work_of(copy, files)
        found = tried(copy, place, operator, occurrence, files, PATIENCE * usual[together] + SLACK)
        if found is None:
            print(f"{number} of {len(waiting)}  cannot be made: {operator}, {module}:{place.line}", flush=True)
            continue
        with kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found._asdict()) + "\n")
        print(f"{number} of {len(waiting)}  {found.outcome:8}  {module}:{found.line}\n{found.change}", flush=True)
    outcomes = [each.outcome for each in last_words(kept).values()]
    noticed = sum(outcome != "survived" for outcome in outcomes)
    print(f"{noticed} of {len(outcomes)} changes were noticed; all of them: {kept}")


if __name__ == "__main__":
    main()
