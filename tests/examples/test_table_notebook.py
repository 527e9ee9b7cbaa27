"""The notebook with a table runs, and shows what it showed when it was stored."""

import json

import pytest

from tests.examples.notebooks import EXAMPLES, outputs, rerun

NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


@pytest.mark.slow
def test_own_table_notebook(tmp_path, monkeypatch):
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'idiolect[pandas]'")
    monkeypatch.chdir(tmp_path)
    names = rerun("own_table.ipynb")
    assert names["scores"]["persa_fl_me"].mean() > names["scores"]["fedavg"].mean() + 0.05


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored_notebooks_were_run_in_order_and_show_no_warning_and_no_place(name):
    cells = [cell for cell in json.loads((EXAMPLES / name).read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert outputs(name)
    for output in outputs(name):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
        said = json.dumps({key: value for key, value in output.get("data", output).items() if key != "image/png"})
        assert not any(place in said for place in ("/tmp", "/home", "/root", "Warning"))
