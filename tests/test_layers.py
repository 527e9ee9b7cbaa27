"""The architecture, read off the import graph: who may import whom, and that nobody imports in a circle."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "idiolect"

# A package may import those before it, and those beside it that are named here. The rest of CONTRIBUTING's rules are
# exceptions from that order: what a package may not see although it stands before it.
ORDER = [
    ["device", "errors"],
    ["files", "registry", "own_code", "processes", "trees"],
    ["options", "sealed_tensors"],
    ["contracts"],
    ["theory", "quantization", "network", "problems", "protocols"],
    ["data", "objectives", "sharing", "torch", "refusals"],
    ["catalog"],
    ["engines"],
    ["evaluation"],
    ["experiments"],
    ["results"],
    ["report"],
    ["interface", "learning"],
    ["comparison", "deploy", "export", "inspection", "testing", "tracking", "tuning"],
    ["watching"],
    ["papers"],
    ["leaderboard"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}
NEVER = {
    "problems": {"objectives", "protocols", "network"},
    "objectives": {"protocols", "problems", "network"},
    "sharing": {"objectives", "protocols", "problems", "network", "theory"},
    "protocols": {"objectives", "problems", "network", "quantization", "theory"},
    "network": {"objectives", "problems", "protocols", "trees", "quantization", "theory"},
    "quantization": {"objectives", "protocols", "problems", "network"},
    "theory": {"objectives", "protocols", "problems", "network", "quantization"},
    "engines": {"problems", "objectives", "protocols", "catalog", "registry", "options"},
    "evaluation": {"problems", "objectives", "protocols", "catalog"},
    "data": {"objectives", "protocols", "network", "quantization", "theory"},
    "torch": {"objectives", "protocols", "network", "quantization", "theory"},
    "testing": {"experiments", "results", "report", "interface"},
    "comparison": {"report", "engines", "interface"},
}


def modules() -> dict[str, Path]:
    """Every module by its dotted name below the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, *, types_too: bool = True) -> set[str]:
    """What a module imports of the package, wherever it does so; names that only type checkers see may be left out."""
    tree = ast.parse(path.read_text("utf-8"))
    if not types_too:
        tree = _WithoutTypes().visit(tree)
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "idiolect":
            below = node.module.split(".")[1:]
            found |= {".".join([*below, alias.name]) for alias in node.names} if not below else {".".join(below)}
            found |= {".".join([*below, alias.name]) for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {".".join(a.name.split(".")[1:]) for a in node.names if a.name.startswith("idiolect.")}
    known = modules()
    return {name for name in found if name in known and name}


class _WithoutTypes(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | None:
        named = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if named else self.generic_visit(node)


def package(module: str) -> str:
    return module.split(".")[0]


MODULES = {name: path for name, path in modules().items() if name}


def test_every_package_has_a_place_in_the_order():
    assert {package(name) for name in MODULES} == set(LEVEL)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module):
    mine = package(module)
    for other in imports(MODULES[module]):
        theirs = package(other)
        if theirs != mine:
            assert LEVEL[theirs] <= LEVEL[mine], f"{module} imports {other}, which stands above it"
            assert theirs not in NEVER.get(mine, ()), f"{mine} may not see {theirs}, but {module} imports {other}"


def test_no_package_imports_another_that_imports_it():
    graph = defaultdict(set)
    for name, path in MODULES.items():
        graph[package(name)] |= {package(other) for other in imports(path)} - {package(name)}
    for one in graph:
        seen, waiting = set(), list(graph[one])
        while waiting:
            following = waiting.pop()
            assert following != one, f"{one} imports itself by way of others"
            if following not in seen:
                seen.add(following)
                waiting += graph[following]


def test_devices_and_servers_know_nothing_of_each_other():
    """Each can be installed without the other; what they share is the messages."""
    for one, other in (("serving", "joining"), ("joining", "serving")):
        for module, path in MODULES.items():
            if module.startswith(f"deploy.{one}"):
                assert not [name for name in imports(path) if name.startswith(f"deploy.{other}")], module


def test_a_courier_of_flower_needs_neither_and_no_module_needs_both():
    for module, path in MODULES.items():
        if module.startswith("deploy.flower"):
            sides = {
                name.split(".")[1] for name in imports(path) if name.startswith(("deploy.serving", "deploy.joining"))
            }
            assert len(sides) <= (0 if module.endswith("client_app") else 1), module


def test_no_file_name_is_used_twice():
    names = Counter(path.name for path in MODULES.values() if path.stem not in ("__init__", "__main__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_package_asks_for_another_ones_names():
    """Axes meet by contract: only registries and what fills them know that something is called maml or local."""
    names = {"plain", "proximal", "maml", "moreau", "quantized", "local", "synchronous", "running_sum", "gossip"}
    for module, path in MODULES.items():
        if package(module) in ("catalog", "papers", "theory"):  # theorems are about methods, and say which
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Compare):
                said = {c.value for c in (node.left, *node.comparators) if isinstance(c, ast.Constant)}
                assert not names & {text for text in said if isinstance(text, str)}, f"{module} asks for {said}"


def test_modules_are_short_and_none_is_a_drawer():
    for module, path in MODULES.items():
        lines = len(path.read_text("utf-8").splitlines())
        assert lines <= 300, f"{module} has {lines} lines"
        assert path.stem not in ("utils", "util", "helpers", "helper", "common", "base", "misc", "manager")
