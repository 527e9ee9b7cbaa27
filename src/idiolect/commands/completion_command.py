"""`idiolect completion bash|zsh`: a script by which a shell completes commands, flags and names.

The script is written from the parser itself and needs nothing but the shell: names are those of the moment at which it
is written.
"""

import argparse
import shlex
from collections.abc import Callable, Mapping
from typing import Any

_HOW = {
    "bash": 'eval "$(idiolect completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(idiolect completion zsh)"    # in ~/.zshrc',
}
_SCRIPT = """# Completion of idiolect for {shell}: {how}
{before}_idiolect() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" command="" words="" one
    for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$one" in -*) ;; *) command="$one"; break ;; esac
    done
    case "$command" in
{cases}
        *) words={commands} ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
}}
complete -o filenames -F _idiolect idiolect
"""


def add(commands: Any, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Teach the command line `completion`, which asks for the whole parser."""
    completion = commands.add_parser(
        "completion", help="print a script that completes commands in a shell", epilog=_HOW["bash"]
    )
    completion.set_defaults(command=lambda options: _completion(options, parser()))
    completion.add_argument("shell", choices=list(_HOW), help="which one")


def _completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    words = _words(parser)
    cases = "\n".join(f"        {name}) words={shlex.quote(' '.join(mine))} ;;" for name, mine in words.items())
    before = "autoload -U +X bashcompinit && bashcompinit\n" if options.shell == "zsh" else ""
    listed = shlex.quote(" ".join([*words, *_flags(parser)]))
    print(_SCRIPT.format(shell=options.shell, how=_HOW[options.shell], before=before, cases=cases, commands=listed))
    return 0


def _words(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """By command, its flags, what they choose from, and the names it takes."""
    found = {}
    for name, command in _commands(parser).items():
        chosen = [str(choice) for action in command._actions for choice in action.choices or ()]
        found[name] = [*_flags(command), *chosen, *_names().get(name, [])]
    return found


def _commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    choices: Mapping[str, argparse.ArgumentParser] = next(
        action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    return choices


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]


def _names() -> dict[str, list[str]]:
    """What commands take that has a name."""
    from idiolect import catalog
    from idiolect.commands.table_texts import TABLES
    from idiolect.experiments.recipe_files import builtin_recipes
    from idiolect.papers.exhibits import EXHIBITS
    from idiolect.registry import REGISTRIES

    recipes = list(builtin_recipes())
    every = [*catalog.ALGORITHMS, *(name for registry in REGISTRIES.values() for name in registry), *TABLES, *recipes]
    taking = dict.fromkeys(("run", "inspect", "tune", "advise"), recipes)
    return {**taking, "show": list(dict.fromkeys(every)), "reproduce": list(EXHIBITS)}
