"""What the papers prove, as functions: for now, when a Moreau envelope is well posed.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Sec. 3 and Lemma 5.
"""

from idiolect.errors import UserMistake


def check_lambda(lambda_: float, smoothness: float | None) -> None:
    """Refuse a lambda for which h = f + lambda/2 ||. - w||^2 need not be strongly convex (PersA-FL, Sec. 3)."""
    if smoothness is not None and lambda_ <= smoothness:
        raise UserMistake(
            f"objective.lambda is {lambda_:g}, but the Moreau envelope needs lambda > L and this problem has "
            f"L = {smoothness:.4g}"
        )
