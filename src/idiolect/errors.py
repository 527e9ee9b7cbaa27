"""Exceptions that are not bugs: a user's mistake, divergence, a refused update, an interruption; how to say them."""

_LONGEST = 1200  # characters of a sentence


class UserMistake(ValueError):
    """Wrong input. The message is one sentence: the field, the value, and what would be right."""


class Diverged(ArithmeticError):
    """Training produced a number that is not finite; the message names the client, the step and the value."""


class Refused(RuntimeError):
    """A client sent what cannot be right, and the run was to stop then; the message names the client and the turn."""


class Interrupted(Exception):
    """Somebody asked the run to stop; what it has done is saved."""


def in_one_line(sentence: str) -> str:
    """A sentence that may quote a file, as a terminal may show it: nothing that moves the cursor, and no essay."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in sentence)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 200]} … {shown[-200:]}"
