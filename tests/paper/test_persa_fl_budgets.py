"""PersA-FL, Corollaries 1 and 3: what they ask for is enough, little more than enough, and of the orders they say."""

import math

import pytest

from idiolect.contracts.constants import Constants, Variation
from idiolect.errors import UserMistake
from idiolect.theory import Run, maml_bound, maml_budget, moreau_bound, moreau_budget

CONSTANTS = Constants(0.0, 2.0, 3.0, 0.5)  # L, G, rho
VARIATION = Variation(0.8, 0.6, 0.5, 0.4)
RUN = {"local_steps": 3, "staleness": 2, "gap": 1.5}


def maml(epsilon, steps=None, size=None):
    """Corollary 1's budget at this epsilon, and Theorem 2's bound at it (or at another T or b)."""
    budget = maml_budget(CONSTANTS, VARIATION, epsilon=epsilon, step_size=0.1, **RUN)
    run = Run(3, 2, steps or budget.steps, 1.5)
    return budget, maml_bound(CONSTANTS, VARIATION, run, step_size=0.1, batch_size=size or budget.batch_size)


def moreau(epsilon, lemma_6, stretch=1.0, fewer=0, size=None):
    """Corollary 3's budget, and Theorem 3's bound at it: with a longer nu, fewer steps or another batch."""
    budget = moreau_budget(CONSTANTS, VARIATION, epsilon=epsilon, lambda_=20.0, lemma_6=lemma_6, **RUN)
    run, nu, size = Run(3, 2, budget.steps - fewer, 1.5), stretch * budget.accuracy, size or budget.batch_size
    told = {"lambda_": 20.0, "accuracy": nu, "batch_size": size, "lemma_6": lemma_6}
    return budget, moreau_bound(CONSTANTS, VARIATION, run, **told)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_corollary_1_asks_for_enough_and_for_little_more(epsilon):
    budget, bound = maml(epsilon)
    assert bound.total <= epsilon * (1 + 1e-9)
    assert bound.personalization <= epsilon / 2
    assert maml(epsilon, size=budget.batch_size - 1)[1].personalization > epsilon / 2
    shorter = maml(epsilon, steps=budget.steps - 1)[1]
    assert sum(shorter[:3]) > epsilon / 2


@pytest.mark.parametrize("lemma_6", ["printed", "repaired"])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-4])
def test_corollary_3_asks_for_enough_and_for_little_more(epsilon, lemma_6):
    _, bound = moreau(epsilon, lemma_6)
    assert bound.total <= epsilon * (1 + 1e-9)
    assert moreau(epsilon, lemma_6, stretch=1.01)[1].personalization > epsilon / 2
    assert sum(moreau(epsilon, lemma_6, fewer=1)[1][:3]) > epsilon / 2 * (1 - 1e-9)


def test_budgets_grow_as_the_corollaries_say():
    """A hundredth of a small epsilon: 100^2 times the steps, 100 times the batch, a tenth of nu."""
    coarse, fine = (maml(epsilon)[0] for epsilon in (1e-6, 1e-8))
    assert fine.steps / coarse.steps == pytest.approx(1e4, rel=1e-3)
    assert fine.batch_size / coarse.batch_size == pytest.approx(100, rel=1e-3)
    coarse, fine = (moreau(epsilon, "repaired")[0] for epsilon in (1e-6, 1e-8))
    assert fine.steps / coarse.steps == pytest.approx(1e4, rel=1e-2)
    assert fine.accuracy / coarse.accuracy == pytest.approx(0.1)
    assert fine.batch_size / coarse.batch_size == pytest.approx(100, rel=1e-3)


def test_as_printed_corollary_3_asks_nothing_of_the_batches_which_is_not_enough():
    """Where Lemma 6 is repaired, the printed budget misses its epsilon however long it runs."""
    budget, _ = moreau(1e-4, "printed")
    assert budget.batch_size == 1
    run, told = Run(3, 2, 10**15, 1.5), {"lambda_": 20.0, "accuracy": budget.accuracy, "batch_size": 1}
    assert moreau_bound(CONSTANTS, VARIATION, run, **told).total > 1e-4


def test_a_theorem_s_least_number_of_steps_is_kept():
    budget, bound = moreau(1e6, "repaired")
    assert budget.steps == math.ceil(288 * 40 / 18 * 10 * 27)
    assert bound.total < 1e6


def test_a_personal_step_of_zero_needs_no_batches():
    assert maml_budget(CONSTANTS, VARIATION, epsilon=1e-6, step_size=0.0, **RUN).batch_size == 1


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_an_epsilon_that_nothing_reaches_is_told(epsilon):
    with pytest.raises(UserMistake, match=r"epsilon is .*, but must be positive"):
        maml(epsilon)
    with pytest.raises(UserMistake, match=r"epsilon is .*, but must be positive"):
        moreau(epsilon, "printed")
