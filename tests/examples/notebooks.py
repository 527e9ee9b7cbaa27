"""Notebooks without Jupyter: their code cells run in one namespace, and what they print is what the notebook shows."""

import ast
import contextlib
import io
import json
from importlib.util import find_spec
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def rerun(name: str) -> dict:
    """Run a notebook in this folder and compare what it prints, and the plain texts of what it shows; its names."""
    names: dict = {"__name__": "__main__"}
    for cell in json.loads((EXAMPLES / name).read_text())["cells"]:
        if cell["cell_type"] != "code" or ("needs-matplotlib" in cell["metadata"].get("tags", []) and not _draws()):
            continue
        source, said = "".join(cell["source"]), io.StringIO()
        with contextlib.redirect_stdout(said):
            shown = _run(source, names)
        assert said.getvalue() == _text(cell, "stream"), source
        if _text(cell, "execute_result"):
            assert repr(shown) == _text(cell, "execute_result"), source
    return names


def outputs(name: str) -> list[dict]:
    """Everything that a stored notebook shows."""
    cells = json.loads((EXAMPLES / name).read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


def _draws() -> bool:
    if find_spec("matplotlib") is None:
        return False
    import matplotlib

    matplotlib.use("agg")
    return True


def _run(source: str, names: dict) -> object:
    """Run a cell; what its last line is worth, if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def _text(cell: dict, kind: str) -> str:
    found = [output for output in cell["outputs"] if output["output_type"] == kind]
    return "".join("".join(o["text"] if kind == "stream" else o["data"]["text/plain"]) for o in found)
