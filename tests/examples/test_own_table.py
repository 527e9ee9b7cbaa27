"""The example with a table of one's own runs, in a short form."""

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_table.py"


def test_it_writes_a_table_and_runs_its_recipe(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("own_table", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(str(tmp_path), horizon=20.0, points=1)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["local", "fedavg", "persa_fl_me", "pars_push", "report"]
    assert all(0.3 < float(line.split()[1]) <= 1 for line in said[:-1])
    assert (tmp_path / "run" / "report.html").is_file()
