"""Checks that refuse numbers for which the theorems do not hold, in sentences."""

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake


def check_personal_step(step_size: float, smoothness: float | None) -> None:
    """Refuse a personal step alpha that no eps1, eps2 of PARS-Push, Lemma 1, admit: one with alpha L >= 1.

    At 1 / L a step forgets where it started in the steepest direction, so the MAML cost need not be strongly convex.
    The L of f_i, where that of the samples is not known, refuses less.

    Args:
        step_size: alpha.
        smoothness: L; None, where it is not known, refuses nothing.

    Returns:
        Nothing; a step that is too long is a `UserMistake`.

    Example:
        >>> from idiolect.theory import check_personal_step
        >>> check_personal_step(0.1, smoothness=2.0)
    """
    if smoothness is not None and step_size * smoothness >= 1:
        raise UserMistake(
            f"objective.step_size is {step_size:g}, but the MAML cost is sure to be strongly convex only for "
            f"step_size < 1 / L and this problem has L = {smoothness:.4g}"
        )


def check_constants(constants: Constants) -> None:
    """Refuse constants that no loss can have."""
    for name, value in constants._asdict().items():
        at_least(f"constants.{name}", value, 0)
    if constants.convexity > constants.smoothness:
        raise UserMistake(
            f"constants.convexity is {constants.convexity}, above constants.smoothness, which is {constants.smoothness}"
        )


def check_variation(variation: Variation) -> None:
    """Refuse what no samples and no clients can differ by."""
    for name, value in variation._asdict().items():
        at_least(f"variation.{name}", value, 0)


def at_least(name: str, value: float, least: float) -> None:
    """Refuse what is smaller, or not a number."""
    if not value >= least:
        raise UserMistake(f"{name} is {value}, but must be at least {least}")


def positive(name: str, value: float) -> None:
    """Refuse what is not above zero."""
    if not value > 0:
        raise UserMistake(f"{name} is {value}, but must be positive")
