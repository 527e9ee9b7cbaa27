"""Asking the command line: show, new, completion, and help for every flag."""

import argparse
import subprocess
from pathlib import Path

import pytest

from idiolect import catalog
from idiolect.cli import _parser, main
from idiolect.commands.option_texts import option_texts
from idiolect.commands.table_texts import TABLES, table_texts
from idiolect.experiments.recipe_files import builtin_recipes, load_recipe
from idiolect.registry import Registry


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(found.choices)


def test_every_argument_of_every_command_has_help():
    waiting = list(commands().items())
    for name, command in waiting:
        for action in command._actions:
            assert action.help, f"{name} {action.dest}"
            if isinstance(action, argparse._SubParsersAction):
                waiting += [(f"{name} {choice}", parser) for choice, parser in action.choices.items()]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "persa_fl_me",
            [
                "persa_fl_me: an algorithm, Toghani et al. 2023, option C",
                "objective = moreau (idiolect)",
                "    lambda: number above 0; default 20.0",
                "protocol = asynchronous (idiolect)",
            ],
        ),
        ("qupel", ["    lambda_p: number at least 0; default here 0.025, else 0.0"]),
        (
            "maml+buffered",
            ["maml+buffered: an algorithm, a cell of the table", "    size: whole number at least 1; default 10"],
        ),
        (
            "fedavgm",
            [
                "    server: one of the server optimizers: sgd, adam, yogi, adagrad; "
                "default here {'name': 'sgd', 'momentum': 0.9}, else not set"
            ],
        ),
        ("ring", ["ring: a topology (idiolect, idiolect.network.topologies)"]),
        ("fedrep", ["  private = ['last'], train_order = private_first"]),
        (
            "local",
            ["local: an algorithm, every client alone", "local: a protocol (idiolect, idiolect.protocols.alone)"],
        ),
        (
            "digits",
            [
                "    unseen: number at least 0 below 1; default 0.0",
                "        The share of clients that take no part in training.",
                "    model: one of the models: linear, mlp, cnn, resnet; default mlp",
            ],
        ),
    ],
)
def test_show_says_what_a_name_takes(name, lines, capsys):
    assert main(["show", name]) == 0
    said = capsys.readouterr().out.splitlines()
    for line in lines:
        assert line in said


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (
            "training",
            [
                "    local_steps: whole number at least 1; default not set",
                "    epochs: whole number at least 1; default not set",
                "    step_rule: table: `idiolect show step_rule`; default its own defaults",
                "    side_by_side: whole number at least 1; default not set",
            ],
        ),
        ("step_rule", ["    decay: number above 0; default 1.0"]),
        (
            "recipe",
            [
                "    algorithms: table: `idiolect show algorithms`; must be given",
                "    horizon: number; default not set",
            ],
        ),
        ("attack", ["    clients: number or list of whole number; must be given"]),
    ],
)
def test_show_says_what_the_tables_of_a_recipe_take(table, lines, capsys):
    assert main(["show", table]) == 0
    said = capsys.readouterr().out.splitlines()
    for line in lines:
        assert line in said


def test_every_key_of_a_table_is_told():
    for name, table in TABLES.items():
        keys = {option.name for option in table_texts(name)}
        assert keys == set(getattr(table, "_fields", None) or table.__annotations__), name
    inner = {"recipe", "step_rule", "optimizer", "neighbours", "delay"}
    assert {*TABLES} - inner < {option.name for option in table_texts("recipe")}


def test_show_prints_a_recipe_as_it_was_written(capsys):
    assert main(["show", "demo"]) == 0
    head, _, text = capsys.readouterr().out.partition("\n")
    assert head == "# recipe demo (idiolect); run it: idiolect run demo"
    assert 'name = "persa_fl_me"' in text
    assert "# Every method has the best of as many trials" in text


def test_show_of_an_unknown_name_is_one_sentence(capsys):
    assert main(["show", "fedavgg"]) == 2
    assert "NAME is 'fedavgg' (did you mean 'fedavg'?)" in capsys.readouterr().err
    for almost in ("plain+nothing", "nothing+buffered"):
        assert main(["show", almost]) == 2


def test_every_name_can_be_shown_and_says_what_each_option_must_be():
    ours = [value for value in vars(catalog).values() if isinstance(value, Registry)]  # not what other tests make
    assert len(ours) > 5
    for registry in ours:
        for name in registry:
            for option in option_texts(registry[name]):
                assert option.kind
                assert "typing." not in option.kind
                if registry.source(name) == "idiolect":  # other tests register what is their own
                    assert option.about, f"{registry.kind}: {name} does not say what {option.name} is"


def test_every_key_of_a_table_says_what_it_is():
    for table in TABLES:
        for option in table_texts(table):
            assert option.about, f"{table} does not say what {option.name} is"


def test_a_delay_law_says_where_its_mean_and_variation_are_told(capsys):
    for name in catalog.DELAY_LAWS:
        assert main(["show", name]) == 0
        assert "`idiolect show delay`" in capsys.readouterr().out
    assert main(["show", "delay"]) == 0
    assert "    variation: number above 0; default 0.5\n        Their coefficient" in capsys.readouterr().out
    assert main(["show", "network"]) == 0
    assert "    upload: table: `idiolect show delay`; default not set" in capsys.readouterr().out


def test_options_said_are_those_that_a_recipe_takes():
    """The bounds that are shown are those at which a recipe is refused."""
    (beta,) = (one for one in option_texts(catalog.PROTOCOLS["asynchronous"]) if one.name == "beta")
    assert (beta.kind, beta.default) == ("number above 0", "1.0")


def test_a_new_recipe_says_what_its_lines_do_and_can_be_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine.toml"]) == 0
    assert "run it: idiolect run mine.toml" in capsys.readouterr().out
    text = Path("mine.toml").read_text()
    assert "#   idiolect run mine.toml" in text
    assert load_recipe("mine.toml").labels == ["local", "fedavg", "at_once"]
    small = ["horizon=40", "problem.clients=4", "evaluation.points=1", "problem.model.hidden=[4]"]
    assert main(["run", "mine.toml", "--seed", "0", "--out", "out", "--set", *small, "training.local_steps=1"]) == 0
    capsys.readouterr()
    for wrong, said in (("mine.toml", "is there already"), ("mine.txt", "must end in .toml"), ("no/a.toml", "folder")):
        assert main(["new", wrong]) == 2
        assert said in capsys.readouterr().err
    assert Path("mine.toml").read_text() == text


def completed(words: list[str], script: Path) -> list[str]:
    """What bash offers for the last of the words."""
    given = " ".join(f"'{word}'" for word in words)
    ask = f"source {script}; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _idiolect; "
    ask += "printf '%s\\n' \"${COMPREPLY[@]}\""
    return subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True).stdout.split()


def test_a_shell_completes_commands_flags_and_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    assert completed(["idiolect", "res"], script) == ["resume"]
    assert completed(["idiolect", "run", "dem"], script) == ["demo"]
    assert completed(["idiolect", "show", "persa_fl_ma"], script) == ["persa_fl_maml"]
    assert completed(["idiolect", "run", "--check"], script) == ["--checkpoint-every"]
    (tmp_path / "mine.toml").touch()
    assert completed(["idiolect", "inspect", "min"], script) == ["mine.toml"]
    assert set(builtin_recipes()) <= set(completed(["idiolect", "run", ""], script))
    assert main(["completion", "zsh"]) == 0
    assert "bashcompinit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("rnu demo", "COMMAND is 'rnu' (did you mean 'run'?); known are new, list,"),
        ("xyzzy", "COMMAND is 'xyzzy'; known are"),
        ("--versoin", "has no flag '--versoin' (did you mean '--version'?)"),
        ("run --sed 3 demo", "`idiolect run` has no flag '--sed' (did you mean '--seed'?)"),
        ("run --dta-dir=x demo", "has no flag '--dta-dir' (did you mean '--data-dir'?)"),
        ("run demo extra", "'extra' is one argument too many for `idiolect run`"),
        ("run demo --seed", "--seed: expected one argument; `idiolect run --help`"),
        ("tune demo --trials x", "--trials: is x, but must be a whole number"),
        ("show", "required: NAME; `idiolect show --help` says what it takes"),
        ("keys", "required: ACTION; `idiolect keys --help`"),
        ("keys isue alice", "ACTION is 'isue' (did you mean 'issue'?); known are init, issue, revoke"),
        ("completion fish", "shell is 'fish'; known are bash, zsh"),
    ],
)
def test_a_mistyped_command_line_is_one_sentence(typed, said, capsys):
    assert main(typed.split()) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("idiolect: ")
    assert error.count("\n") == 1
    assert said in error


def test_without_a_command_help_names_them_all(capsys):
    assert main([]) == 0
    output, error = capsys.readouterr()
    assert error == ""
    listed = [words[0] for line in output.splitlines() if (words := line.split())]
    assert set(commands()) <= set(listed)
