"""Search queries, lists of candidates and clicks, drawn at random with the sizes of the seminar's experiment.

The seminar on personalized asynchrony (M. T. Toghani, "Personalized search ranking") has 200 users with preferences of
their own, 30 to 100 queries each, lists of 2 to 25 suggestions, and "potential suggestions: x3". Its data is private,
and it says no more; this generator has the same sizes, and the rest is ours:

- "x3" means that a search engine picks the k suggestions of a list from 3k candidates. The user sees and clicks one of
  the k; a model has to find it among all 3k, so that the 2k that were never shown are its negatives.
- A candidate is a vector x of standard normal features. A user's utility is linear in x and in |x|, which no linear
  model of x can tell: some like more of a feature, some like it extreme. |x| makes a share `extremes` of its variance.
- The coefficients of user i are (common + `personal` * own_i) / sqrt(1 + `personal`^2): utilities have the same spread
  whatever `personal` is, and personal^2 / (1 + personal^2) of their variance is the user's own.
- The engine knows the common part only, up to a normal error of size `noise`. It orders the candidates, best first;
  in this order they lie in a row, and the first third of them is shown.
- The user clicks a shown candidate with probability proportional to exp(utility / `noise`); without noise, the best.

Numbers of queries are spread evenly over their range and dealt to users at random, so that their sum, and with it the
shape of everything, is the same for every seed.
"""

from typing import NamedTuple

import numpy as np

from idiolect.errors import UserMistake

Searches = dict[str, np.ndarray]
"""One user's queries: `features` (query, place, feature), `mask` (query, place) where there is a candidate, and
`clicked` (query), the place of the click. Candidates fill the first places of a row; padding is zero."""


class Crowd(NamedTuple):
    """The users of a generated problem; by default those of the seminar."""

    clients: int = 200
    queries: tuple[int, int] = (30, 100)  # a user has so many, at least and at most
    suggestions: tuple[int, int] = (2, 25)  # a list shows so many
    candidates: int = 3  # for every suggestion that is shown
    dimension: int = 20  # features of a candidate
    extremes: float = 0.2  # the share of |x| in the variance of utilities
    personal: float = 0.6  # the size of a user's own part of the preferences; the common part has size 1
    noise: float = 0.1  # of clicks, and of the engine; utilities have a standard deviation of about 1


def draw_searches(crowd: Crowd = Crowd(), *, seed: int = 0) -> list[Searches]:
    """Every user's queries, candidates and clicks."""
    for name in ("queries", "suggestions"):
        low, high = getattr(crowd, name)
        if not 1 <= low <= high:
            raise UserMistake(f"problem.{name} is [{low}, {high}], but must be a least and a most, both at least 1")
    rng = np.random.default_rng(seed)
    common, preferences = draw_preferences(crowd, rng)
    counts = rng.permutation(np.linspace(*crowd.queries, crowd.clients).round().astype(int))
    return [_draw_user(crowd, common, own, count, rng) for own, count in zip(preferences, counts, strict=True)]


def draw_preferences(crowd: Crowd, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The common coefficients of utility, and every user's; each a vector over the features of `taste`."""
    variances = np.repeat([1 - crowd.extremes, crowd.extremes], crowd.dimension) / crowd.dimension
    common = rng.standard_normal(2 * crowd.dimension) * np.sqrt(variances)
    own = rng.standard_normal((crowd.clients, 2 * crowd.dimension)) * np.sqrt(variances)
    return common, (common + crowd.personal * own) / np.sqrt(1 + crowd.personal**2)


def taste(features: np.ndarray) -> np.ndarray:
    """What utility is linear in: x and |x|, all of mean 0 and variance 1 where x is standard normal."""
    extremes = (np.abs(features) - np.sqrt(2 / np.pi)) / np.sqrt(1 - 2 / np.pi)
    return np.concatenate([features, extremes], axis=-1)


def _draw_user(
    crowd: Crowd, common: np.ndarray, preference: np.ndarray, count: int, rng: np.random.Generator
) -> Searches:
    longest = crowd.suggestions[1] * crowd.candidates
    shown = rng.integers(crowd.suggestions[0], crowd.suggestions[1] + 1, size=(count, 1))
    mask = np.arange(longest) < crowd.candidates * shown
    features = rng.standard_normal((count, longest, crowd.dimension))
    engine = taste(features) @ common + crowd.noise * rng.standard_normal(mask.shape)
    order = np.argsort(-np.where(mask, engine, -np.inf), axis=1, kind="stable")
    features = np.take_along_axis(features, order[..., None], axis=1)
    # Adding Gumbel noise and taking the best is drawing from the softmax.
    utility = taste(features) @ preference + crowd.noise * rng.gumbel(size=mask.shape)
    clicked = np.where(np.arange(longest) < shown, utility, -np.inf).argmax(1)
    return {
        "features": np.where(mask[..., None], features, 0).astype(np.float32),
        "mask": mask,
        "clicked": clicked.astype(np.int32),
    }
