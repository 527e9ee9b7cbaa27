"""Which room of the package imports which, read off the sources."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "idiolect"
Graph = dict[str, set[str]]


def imports() -> Graph:
    """For every room (a package, or a module beside them) the rooms it imports, wherever in a file it does so."""
    graph: Graph = {}
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room not in ("__init__", "__main__"):
            graph.setdefault(room, set()).update(_named_in(path))
    return {room: {other for other in others if other in graph and other != room} for room, others in graph.items()}


def _named_in(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "idiolect":
            within = node.module.split(".")[1:]
            found |= {within[0]} if within else {alias.name for alias in node.names}
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("idiolect.")}
    return found


def first_line(room: str) -> str:
    """What a room says of itself."""
    path = SOURCE / room / "__init__.py"
    tree = ast.parse((path if path.exists() else SOURCE / f"{room}.py").read_text("utf-8"))
    return (ast.get_docstring(tree) or room).splitlines()[0]


def layers(graph: Graph) -> list[list[str]]:
    """Every room as low as what it imports allows: a layer imports only from those below it."""
    level: dict[str, int] = {}
    while len(level) < len(graph):
        ready = {room for room in graph if room not in level and graph[room] <= level.keys()}
        if not ready:
            raise ValueError(f"rooms import each other in a circle: {sorted(graph.keys() - level.keys())}")
        level |= {room: 1 + max((level[other] for other in graph[room]), default=-1) for room in ready}
    found = defaultdict(list)
    for room in sorted(level):
        found[level[room]].append(room)
    return [found[number] for number in sorted(found)]


def direct(graph: Graph) -> Graph:
    """The imports that do not follow from others: a -> c is left out where a -> b -> c says it already."""
    reached: Graph = {}
    for layer in layers(graph):
        for room in layer:
            reached[room] = graph[room].union(*(reached[other] for other in graph[room]))
    return {
        room: {one for one in others if not any(one in reached[two] for two in others)}
        for room, others in graph.items()
    }
