"""The parser of the command line: what is mistyped costs one sentence, as any other mistake does."""

import argparse
from typing import Any, NoReturn

from idiolect.errors import UserMistake


class Parser(argparse.ArgumentParser):
    """Python's own, which only inheritance can teach what to do with a mistake; its commands are parsed likewise."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As Python does it, but what this command does not know is refused here, where its flags are known."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            self._refuse(next((word for word in rest if word.startswith("-")), rest[0]))
        return options, rest

    def error(self, message: str) -> NoReturn:
        """Whatever else is wrong, such as an argument that is missing."""
        raise UserMistake(f"{message}; `{self.prog} --help` says what it takes")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        from idiolect.options import known

        if action.choices is not None:
            known(
                map(str, action.choices), action.option_strings[0] if action.option_strings else _named(action), value
            )

    def _refuse(self, word: str) -> NoReturn:
        from difflib import get_close_matches

        if not word.startswith("-"):
            self.error(f"'{word}' is one argument too many for `{self.prog}`")
        typed = word.partition("=")[0]
        flags = [flag for action in self._actions for flag in action.option_strings]
        close = get_close_matches(typed, flags, n=1)
        guess = f" (did you mean '{close[0]}'?)" if close else ""
        self.error(f"`{self.prog}` has no flag '{typed}'{guess}")


def _named(action: argparse.Action) -> str:
    return str(action.metavar or action.dest)
