"""Cells of another run are taken over where nothing of them differs, and then a run comes to the same bytes."""

import json
from pathlib import Path

import pytest

from idiolect import Choice, Experiment, UserMistake, run, take_over
from idiolect.cli import main
from idiolect.results import folder as run_folder

QUADRATICS = Choice("quadratics", {"clients": 4, "dimension": 3, "samples": 8})


def experiment(*algorithms, **changes) -> Experiment:
    given = {"horizon": 20.0, "seeds": [0, 1], "training": {"local_steps": 2, "step_size": 0.1}, **changes}
    return Experiment(given.pop("problem", QUADRATICS), list(algorithms), **given)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(experiment("fedavg", "fedasync"), out=tmp_path_factory.mktemp("before") / "run").path


def kept(path: Path) -> dict[str, object]:
    """What a run keeps of its cells, without what the clock said."""
    found: dict[str, object] = {}
    for file in sorted(path.glob("[cpt]*/*-seed*")):
        name = str(file.relative_to(path))
        if file.suffix == ".json":
            record = json.loads(file.read_bytes())
            found[name] = {key: value for key, value in record.items() if key not in ("seconds", "stopwatch")}
        else:
            found[name] = file.read_bytes()
    return found


def test_with_more_algorithms_and_seeds_only_these_are_run_and_all_is_as_if_it_were_run_whole(before, tmp_path):
    more, ran = experiment("scaffold", "fedasync", "fedavg", seeds=[1, 0, 2], description="three of them"), set()
    assert take_over(more, out=tmp_path / "after", other=before) == 4
    run(more, out=tmp_path / "after", progress=lambda state: ran.add((state.label, state.seed)))
    assert ran == {("scaffold", 0), ("scaffold", 1), ("scaffold", 2), ("fedasync", 2), ("fedavg", 2)}
    whole = kept(run(more, out=tmp_path / "whole").path)
    assert len(whole) == 3 * 9
    assert kept(tmp_path / "after") == whole


@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        (experiment("fedavg", {"name": "fedasync", "protocol": {"beta": 0.5}}), {"fedavg-seed0", "fedavg-seed1"}),
        (experiment("fedavg", {"name": "fedasync", "label": "another"}), {"fedavg-seed0", "fedavg-seed1"}),
        (experiment("fedavg", "fedasync", training={"local_steps": 3, "step_size": 0.1}), set()),
        (experiment("fedavg", "fedasync", problem=Choice("quadratics", {"clients": 5})), set()),
        (experiment("fedavg", "fedasync", horizon=21.0), set()),
        (experiment("fedavg", "fedasync", evaluation={"points": 3}), set()),
        (experiment("fedavg", "fedasync", network={"spread": 0.1}), set()),
        (experiment("fedavg", "fedasync", seeds=[5]), set()),
    ],
    ids=["an option", "a label", "training", "problem", "horizon", "evaluation", "network", "seeds"],
)
def test_what_differs_is_not_taken(before, tmp_path, changed, taken):
    assert take_over(changed, out=tmp_path / "after", other=before) == len(taken)
    assert {file.stem for file in (tmp_path / "after/cells").iterdir()} == taken


def test_cells_without_a_server_are_run_anew(tmp_path):
    alone = experiment("rasgp", "fedavg")
    run(alone, out=tmp_path / "before")
    assert take_over(alone.replace(seeds=[0]), out=tmp_path / "after", other=tmp_path / "before") == 1
    assert [file.stem for file in (tmp_path / "after/cells").iterdir()] == ["fedavg-seed0"]


def test_models_that_were_trained_first_are_taken_as_well(tmp_path):
    start = {"pretrain": {"name": "fedavg"}, "horizon": 20.0}
    run(experiment("fedasync", start=start), out=tmp_path / "before")
    more = experiment("fedasync", "fedbuff", start=start, seeds=[0, 1, 2])
    assert take_over(more, out=tmp_path / "after", other=tmp_path / "before") == 2
    assert {file.stem for file in (tmp_path / "after/start/cells").iterdir()} == {"fedavg-seed0", "fedavg-seed1"}
    run(more, out=tmp_path / "after")
    run(more, out=tmp_path / "whole")
    for part in (".", "start"):
        assert kept(tmp_path / "after" / part) == kept(tmp_path / "whole" / part)


def test_who_dies_while_taking_takes_the_rest_later(before, tmp_path, monkeypatch):
    class Died(BaseException):
        pass

    more, really = experiment("fedavg", "fedasync", seeds=[0, 1, 2]), run_folder.write_atomically
    take_over(more, out=tmp_path / "undisturbed", other=before)
    undisturbed = kept(tmp_path / "undisturbed")
    assert len(undisturbed) == 12
    for last in range(12):  # four cells of three files each
        for after in (False, True):
            written, out = list[Path](), tmp_path / f"{last}-{after}"

            def write(path, content, written=written, last=last, after=after):
                if len(written) == last and not after:
                    raise Died
                really(path, content)
                written.append(path)
                if len(written) == last + 1 and after:
                    raise Died

            with monkeypatch.context() as patch:
                patch.setattr(run_folder, "write_atomically", write)
                with pytest.raises(Died):
                    take_over(more, out=out, other=before)
            done = len(list((out / "cells").iterdir()))
            assert take_over(more, out=out, other=before) == 4 - done
            assert kept(out) == undisturbed


@pytest.mark.parametrize("part", ["cells", "timelines", "params"])
def test_a_damaged_cell_is_refused_in_a_sentence_and_is_not_taken(before, tmp_path, part):
    run(experiment("fedavg", seeds=[0]), out=tmp_path / "before")
    (file,) = (tmp_path / "before" / part).iterdir()
    content = bytearray(file.read_bytes())
    content[-5] ^= 1  # in a cell, of its digest: what the clock said has none
    file.write_bytes(content)
    with pytest.raises(UserMistake, match="damaged"):
        take_over(experiment("fedavg"), out=tmp_path / "after", other=tmp_path / "before")
    assert not list((tmp_path / "after/cells").iterdir())


@pytest.mark.parametrize("name", ["../secret", "timelines/../../secret.csv", "timelines/fedavg-seed0./../secret.csv"])
def test_no_name_in_a_cell_leads_out_of_its_run(tmp_path, name):
    run(experiment("fedavg", seeds=[0]), out=tmp_path / "before")
    folder = run_folder.RunFolder(tmp_path / "before")
    folder.add_cell(folder.cell("fedavg", 0), {name: "0" * 64})
    with pytest.raises(UserMistake, match="no file of this cell"):
        take_over(experiment("fedavg"), out=tmp_path / "after", other=tmp_path / "before")
    assert not list((tmp_path / "after/cells").iterdir())


@pytest.mark.parametrize("recipe", [None, "", "algorithms = 3", "algorithms = [3]"])
def test_what_is_no_run_is_one_sentence(tmp_path, capsys, recipe):
    text = 'horizon = 20\n[problem]\nname = "quadratics"\n[[algorithms]]\nname = "fedavg"\n'
    (tmp_path / "mine.toml").write_text(text)
    if recipe is not None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other/recipe.toml").write_text(recipe)
    mine, out, other = (str(tmp_path / name) for name in ("mine.toml", "out", "other"))
    command = ["run", mine, "--out", out, "--take-from", other]
    code, told = main(command), capsys.readouterr().err
    if recipe == "algorithms = [3]":  # which has nothing to take
        assert (code, "0 of 1 cells are taken" in told) == (0, True)
        return
    assert code == 2
    assert len(told.strip().splitlines()) == 1
    assert "no run folder" in told if recipe is None else "no list of algorithms" in told
    assert not (tmp_path / "out").exists()


def test_the_command_says_how_many_cells_it_took(before, tmp_path, capsys):
    text = (before / "recipe.toml").read_text()
    (tmp_path / "again.toml").write_text(text)
    command = ["run", str(tmp_path / "again.toml"), "--out", str(tmp_path / "out"), "--take-from", str(before)]
    assert main(command) == 0
    assert f"4 of 4 cells are taken from {before}" in capsys.readouterr().err.replace("\n", " ")
    assert kept(tmp_path / "out").keys() == kept(before).keys()
