"""The command line. Each command is a module of `idiolect.commands`."""

import os
import sys
from collections.abc import Sequence

from idiolect import __version__
from idiolect.commands import (
    advise_command,
    compare_command,
    completion_command,
    export_command,
    inspect_command,
    join_command,
    keys_command,
    leaderboard_command,
    list_command,
    network_command,
    new_command,
    peer_command,
    report_command,
    reproduce_command,
    run_command,
    serve_command,
    show_command,
    tune_command,
    watch_command,
)
from idiolect.commands.parser import Parser
from idiolect.errors import Diverged, Refused, UserMistake, in_one_line

_COMMANDS = (
    new_command,
    list_command,
    show_command,
    inspect_command,
    run_command,
    watch_command,
    report_command,
    compare_command,
    reproduce_command,
    export_command,
    advise_command,
    tune_command,
    leaderboard_command,
    keys_command,
    serve_command,
    join_command,
    peer_command,
    network_command,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a user's mistake ends with one sentence and exit code 2, and so does what diverges entirely."""
    try:
        options = _parser().parse_args(arguments)
        if "command" not in options:
            _parser().print_help()
            return 0
        _remember_compiled_programs()
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except (UserMistake, Diverged, Refused) as problem:
        print(f"idiolect: {in_one_line(str(problem))}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parser() -> Parser:
    parser = Parser(prog="idiolect", description="Personalized learning across devices.")
    parser.add_argument("--version", action="version", version=f"idiolect {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND")
    for module in _COMMANDS:
        module.add(commands)
    completion_command.add(commands, _parser)
    return parser


def _remember_compiled_programs() -> None:
    """Keep what is compiled for later runs, unless the user has said where JAX is to keep it, or that it is not to."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or "JAX_ENABLE_COMPILATION_CACHE" in os.environ:
        return
    import jax
    import pooch

    settings = {
        "jax_compilation_cache_dir": str(pooch.os_cache("idiolect") / "compiled"),
        "jax_persistent_cache_min_compile_time_secs": 0.01,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
