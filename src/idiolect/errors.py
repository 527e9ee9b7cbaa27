"""The ways a run can end early that are not bugs: a user's mistake, a diverging client, a wish to stop."""


class UserMistake(ValueError):
    """Wrong input. The message is one sentence: the field, the value, and what would be right."""


class Diverged(ArithmeticError):
    """Training produced a number that is not finite; the message names the client, the step and the value."""


class Interrupted(Exception):
    """Somebody asked the run to stop; what it has done is saved."""
