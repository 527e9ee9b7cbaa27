"""What the papers prove, as functions: for now, when a Moreau envelope is well posed.

M. T. Toghani, S. Lee, C. A. Uribe. PersA-FL. 2023, Lemmas 1 and 5.
"""

from idiolect.errors import UserMistake


def check_lambda(lambda_: float, smoothness: float | None) -> None:
    """Refuse a lambda for which h = f + lambda/2 ||. - w||^2 need not be strongly convex (PersA-FL, Sec. 3)."""
    if smoothness is not None and lambda_ <= smoothness:
        raise UserMistake(
            f"objective.lambda is {lambda_:g}, but the Moreau envelope needs lambda > L and this problem has "
            f"L = {smoothness:.4g}"
        )


def moreau_smoothness(lambda_: float, smoothness: float) -> float:
    """The smoothness of the Moreau envelope of an L-smooth function, lambda L / (lambda - L) (Lemma 5)."""
    check_lambda(lambda_, smoothness)
    return lambda_ * smoothness / (lambda_ - smoothness)


def maml_smoothness(step_size: float, smoothness: float, hessian_lipschitz: float, gradient_bound: float) -> float:
    """The smoothness of the one-step MAML cost, L (1 + alpha L)^2 + alpha rho G (Lemma 1)."""
    return smoothness * (1 + step_size * smoothness) ** 2 + step_size * hessian_lipschitz * gradient_bound
