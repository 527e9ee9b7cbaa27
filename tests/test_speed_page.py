"""The benchmarks' records, files and page; nothing here looks at a clock."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HERE = ROOT / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    """Modules of benchmarks/, by name."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module
    for name in set(sys.modules) - before:  # others may have modules of the same names
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(HERE)):
            del sys.modules[name]


def synthetic(bench):
    """A file in which everything was measured, with made-up numbers, as the page asks for them."""
    figures, parts = bench("figures"), bench("speed_page").PARTS
    entries = {}
    for part in parts.values():
        repeats = figures.Figure("ms", [1.0, 3.0, 2.0])
        row = figures.Row("a case", {column.figure: repeats for column in part.columns})
        found = figures.as_data(figures.Found({part.table: figures.Table("made up", [row])}))
        entry = entries.setdefault(part.benchmark, {"state": "done", "size": "short", "commit": "abc", "seconds": 6.0})
        entry.setdefault("tables", {}).update(found["tables"])
    machine = {"cores": 2, "processor": "a processor", "memory": "8 GB", "python": "3.11", "commit": "abc"}
    machine |= {"date": "2026-01-01", "versions": {"jax": "0.9"}, "other versions": {"rivals": {"flwr": "1.41.0"}}}
    return {"machine": machine, "benchmarks": entries}


def test_figures_are_read_as_they_were_written(bench):
    figures = bench("figures")
    ours, theirs = figures.times([0.001, 0.002]), figures.times([0.004, 0.004])
    assert figures.ratio(theirs, ours).repeats == [4.0, 2.0]
    row = figures.Row("mlp", {"idiolect": ours, "ratio": figures.ratio(theirs, ours)})
    found = figures.Found({"updates": figures.Table("what it says", [row])}, {"Flower": "not installed"})
    data = json.loads(json.dumps(figures.as_data(found)))
    assert figures.from_data(data) == found
    assert data["tables"]["updates"]["rows"][0]["figures"]["idiolect"]["median"] == 1.5
    assert str(ours) == "1.50 (1.00..2.00)"


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda data: data.pop("tables"), "has tables"),
        (lambda data: data["tables"]["t"]["rows"][0].pop("case"), "t: a row"),
        (lambda data: data["tables"]["t"]["rows"][0]["figures"]["f"].pop("repeats"), "t, c, f"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(bench, damage, named):
    figures = bench("figures")
    table = figures.Table("says", [figures.Row("c", {"f": figures.once(1.0)})])
    data = figures.as_data(figures.Found({"t": table}))
    damage(data)
    with pytest.raises(ValueError, match=named):
        figures.from_data(data)


def test_sides_are_asked_in_turn(bench):
    order = []
    sides = {name: lambda name=name: order.append(name) or float(len(order)) for name in "ab"}
    found = bench("figures").interleaved(sides, 2)
    assert "".join(order) == "ababab"
    assert found == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_processes_that_stand_by_are_asked_in_turn(bench, tmp_path):
    script = tmp_path / "side.py"
    lines = [
        f"import sys; sys.path.insert(0, {str(HERE)!r})",
        "from standing_by import serve",
        "count = iter(range(9))",
    ]
    script.write_text("\n".join([*lines, "serve(lambda: (print('noise'), {'seconds': next(count)})[1])"]))
    by = bench("standing_by")
    found = by.in_turn({name: [sys.executable, str(script)] for name in "ab"}, 2)
    assert {name: by.values(answers) for name, answers in found.items()} == {"a": [1, 2], "b": [1, 2]}


def test_a_side_that_does_not_start_is_named_and_the_others_go_on(bench, tmp_path):
    script = tmp_path / "side.py"
    code = "import standing_by; standing_by.serve(lambda: {'seconds': 1})"
    script.write_text(f"import sys; sys.path.insert(0, {str(HERE)!r}); {code}")
    sides, failed = {"a": [sys.executable, str(script)], "b": [sys.executable, "-c", "raise SystemExit(3)"]}, {}
    assert list(bench("standing_by").in_turn(sides, 1, failed=failed)) == ["a"]
    assert failed == {"b": "it did not get ready, and ended with 3"}


def test_records_name_scripts_and_keep_to_twelve_minutes(bench):
    records = bench("records")
    assert all((HERE / one.script).exists() for one in records.BENCHMARKS)
    assert sum(one.planned for one in records.BENCHMARKS) <= records.PLAN
    assert all(one.install for one in records.BENCHMARKS if one.needs)


def test_policies_are_compared_by_their_better_number_of_threads(bench):
    seconds = {("idiolect", 1): [0.001, 0.002, 0.001, 0.004]}
    for side in ("together", "batched", "loop"):
        seconds |= {(side, 1): [0.02, 0.03], (side, 2): [0.01, 0.02]}
    ours, *theirs = bench("policies").rows_of(seconds, 2)
    assert ours.figures["time"].repeats == pytest.approx([1.5, 2.5])
    assert all(row.figures["threads"].median == 2 for row in theirs)
    assert theirs[0].figures["ratio"].repeats == pytest.approx([10 / 1.5, 20 / 2.5])


@pytest.fixture
def runner(bench, monkeypatch, tmp_path):
    """The runner with scripts of one line each in place of the real ones."""
    found, run_all, records = tmp_path / "scripts", bench("run_all"), bench("records")
    found.mkdir()
    data = {"tables": {"t": {"says": "s", "rows": [{"case": "c", "figures": {"f": {"unit": "ms", "repeats": [1]}}}]}}}
    write = f"import sys, pathlib; pathlib.Path(sys.argv[-1]).write_text({json.dumps(data)!r})"
    for name, code in {"good": write, "bad": "raise SystemExit(3)", "lacking": write}.items():
        (found / f"{name}.py").write_text(code)
    made = [records.Benchmark(name, "something", 1, (), (), install="pip install it") for name in ("bad", "good")]
    made.append(records.Benchmark("lacking", "something", 1, (), (), ("no_such_package",), install="pip install it"))
    monkeypatch.setattr(run_all, "__file__", str(found / "run_all.py"))
    monkeypatch.setattr(run_all, "commit", lambda: "abc")
    pythons = dict.fromkeys(("main", "torch", "rivals"), sys.executable)
    return lambda again=False: run_all.run(tmp_path / "out.json", made, "short", pythons, again)


def test_one_that_fails_does_not_lose_the_others(runner, capfd):
    whole = runner()
    entries = whole["benchmarks"]
    assert {name: entry["state"] for name, entry in entries.items()} == {
        "bad": "failed",
        "good": "done",
        "lacking": "left out",
    }
    assert "no_such_package not installed: pip install it" in entries["lacking"]["why"]
    assert entries["good"]["tables"]["t"]["rows"][0]["figures"]["f"]["median"] == 1.0
    assert {"cores", "processor", "memory", "python", "versions", "commit", "date"} <= set(whole["machine"])
    runner()
    assert "good: something: measured already" in capfd.readouterr().out
    runner(again=True)
    assert "measured already" not in capfd.readouterr().out


def test_every_place_of_the_page_is_filled_from_the_file(bench):
    made = bench("speed_page")
    words = made.WORDS.read_text()
    assert set(re.findall(r"\{\{(\w+)\}\}", words)) == {"machine", *made.PARTS}
    text = made.page(synthetic(bench), words)
    assert "{{" not in text
    assert made.ABSENT not in text
    assert text.count("| a case | ") == len(made.PARTS)
    assert "2.00 (1.00..3.00)" in text
    assert "a processor" in text
    assert "Flower 1.41.0" in text


def test_what_was_not_measured_is_said(bench):
    made = bench("speed_page")
    text = made.page({"machine": {}, "benchmarks": {}}, made.WORDS.read_text())
    assert text.count(made.ABSENT) == 1 + len(made.PARTS)
    entry = {"state": "left out", "why": "ray not installed: pip install it", "size": "short"}
    assert "*Not measured: ray not installed: pip install it.*" in made.part_text(
        made.PARTS["ray_cost"], {"ray_cost": entry}
    )


def test_the_page_is_what_the_committed_figures_say(bench):
    made = bench("speed_page")
    if not made.DATA.exists():
        pytest.skip("benchmarks/speed.json is not there: docs/speed.md was written by hand, before it was generated")
    assert made.PAGE.read_text() == made.page(json.loads(made.DATA.read_text()), made.WORDS.read_text())
