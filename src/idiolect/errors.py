"""The two ways a run can fail that are not bugs: a user's mistake, and a diverging client."""


class UserMistake(ValueError):
    """Wrong input. The message is one sentence: the field, the value, and what would be right."""


class Diverged(ArithmeticError):
    """Training produced a number that is not finite; the message names the client, the step and the value."""
