"""Exceptions that are not bugs: a user's mistake, divergence, a refused update, an interruption."""


class UserMistake(ValueError):
    """Wrong input. The message is one sentence: the field, the value, and what would be right."""


class Diverged(ArithmeticError):
    """Training produced a number that is not finite; the message names the client, the step and the value."""


class Refused(RuntimeError):
    """A client sent what cannot be right, and the run was to stop then; the message names the client and the turn."""


class Interrupted(Exception):
    """Somebody asked the run to stop; what it has done is saved."""
