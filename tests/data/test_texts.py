"""Texts and tokens: windows that share nothing, masks, means per token, and what comes next."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import idiolect
from idiolect import UserMistake, data
from idiolect.data.token_rows import cut
from idiolect.problems.models import gru, transformer

SMALL = partial(gru, embedding=4, hidden=16)
KEY = jax.random.key(3)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(1, 9))
def test_windows_hold_every_token_once_and_predict_all_but_their_first(sizes, length):
    rows = [np.arange(size) + 100 * place + 1 for place, size in enumerate(sizes)]
    if max(sizes) < 2:
        return
    windows = cut(rows, length)
    assert windows.tokens.shape[1] == length + 1
    for place, row in enumerate(rows):
        mine = windows.origin == place
        inside = np.column_stack([np.ones(mine.sum(), bool), windows.mask[mine]])
        held = windows.tokens[mine][inside]
        lone = len(row) % (length + 1) == 1  # a last token that has nothing before it in its window
        np.testing.assert_array_equal(held, row[: len(row) - lone])
        assert windows.mask[mine].sum() == len(row) - lone - mine.sum()


def test_loss_and_metrics_count_what_the_mask_says():
    made = data.text({"text": ["abcab", "ba", "abc"] * 2}, by=[0] * 6, length=4, model=SMALL)
    model, rows = SMALL(4, 4), made.clients.train.rows
    params = made.init(KEY)
    tokens, mask = np.asarray(rows["tokens"]), np.asarray(rows["mask"])
    logits = np.asarray(model.apply(params, tokens[:, :-1], None), np.float64)
    losses, hits = [], []
    for window in range(len(tokens)):
        mine = [t for t in range(4) if mask[window, t]]
        chances = np.exp(logits[window]) / np.exp(logits[window]).sum(-1, keepdims=True)
        losses.append(np.mean([-np.log(chances[t, tokens[window, t + 1]]) for t in mine]))
        hits.append(np.mean([logits[window, t].argmax() == tokens[window, t + 1] for t in mine]))
    batch = {"tokens": tokens, "mask": mask}
    assert float(made.also[0].score(params, batch)) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(made.metric.score(params, batch)) == pytest.approx(np.mean(hits), rel=1e-5)
    assert [metric.name for metric in made.metrics] == ["token_accuracy", "token_loss"]


def test_what_is_masked_changes_nothing():
    made = data.text({"text": ["ab", "abca", "ba"] * 2}, by=[0] * 6, length=4, model=SMALL)
    rows, params = made.clients.train.rows, made.init(KEY)
    tokens, mask = np.asarray(rows["tokens"]).copy(), np.asarray(rows["mask"])
    shown = np.column_stack([np.ones(len(mask), bool), mask])
    before = made.also[0].score(params, {"tokens": tokens, "mask": mask})
    tokens[~shown] = 2
    assert float(made.also[0].score(params, {"tokens": tokens, "mask": mask})) == pytest.approx(float(before), rel=1e-6)


def test_an_alphabet_makes_all_other_characters_one():
    made = data.text({"text": ["abxyab"] * 3}, by=[0] * 3, length=5, alphabet="ba")
    assert np.asarray(made.clients.train.rows["tokens"]).tolist() == [[2, 1, 0, 0, 2, 1]] * 3


def test_lists_of_tokens_are_taken_as_they_are():
    made = data.text(
        {"ids": [[3, 1, 2], [0, 1, 2, 3, 1], [2, 2]] * 2}, column="ids", by=[0] * 6, length=4, vocabulary=9
    )
    assert made.clients.train.rows["tokens"].max() == 3
    assert made.init(KEY)["logits"]["bias"].shape == (9,)


CYCLES = ["abcd" * 30, "adcb" * 30]  # what follows depends on who writes


@pytest.mark.parametrize("model", [SMALL, partial(transformer, width=16, heads=2, layers=1)])
def test_clients_learn_what_follows_in_their_own_texts(model):
    made = data.text({"text": CYCLES * 2}, by=["left", "right"] * 2, length=7, model=model)
    result = idiolect.learn(made, "local", horizon=150.0, points=1, step_size=0.5, batch_size=8)
    assert result.points[0].scores["participating"]["own"].mean < 0.6
    assert result.points[-1].scores["participating"]["own"].mean > 0.95


MISTAKES = [
    ({"text": ["ab", None, "ba"]}, {}, r"column 'text' is empty in row 1 of the arrays \(client '0'\)"),
    ({"text": ["ab", 3, "ba"]}, {}, r"column 'text' is 3 in row 1 of the arrays \(client '0'\)"),
    ({"text": [1.5, 2.5, 3.5]}, {}, r"column 'text' is 1.5 in row 0 .* must be a text, or a list of whole numbers"),
    ({"text": [[1, 2], [1, 9], [0, 1]]}, {"vocabulary": 4}, r"token 9 in row 1 .* but tokens are 0 to 3"),
    ({"text": [[1, 2], [1, -1], [0, 1]]}, {}, r"token -1 in row 1 .* but tokens are 0 to 2"),
    ({"text": ["a", "b", ""]}, {}, "nothing to predict"),
    ({"text": ["ab", "ba", "ab"]}, {"alphabet": "aa"}, "alphabet is 'aa', but must name every character once"),
    ({"text": ["ab", "ba", "ab"]}, {"vocabulary": 5}, "vocabulary is given, but column 'text' holds texts"),
    ({"text": [[1, 2]] * 3}, {"alphabet": "ab"}, "alphabet is given, but column 'text' holds no texts"),
    ({"text": ["ab", "ba", "a"]}, {}, r"client '0' has 2 windows \(the first in row 0"),
    ({"words": ["ab"]}, {}, "column has 'text', but the arrays has no such column"),
]


@pytest.mark.parametrize(("columns", "options", "said"), MISTAKES)
def test_mistakes_name_column_row_and_client(columns, options, said):
    with pytest.raises(UserMistake, match=said):
        data.text(columns, by=[0] * len(next(iter(columns.values()))), **options)


def test_means_per_token_are_those_of_optax_where_nothing_is_masked():
    logits, labels = jnp.array(np.random.default_rng(0).normal(size=(3, 4, 5))), jnp.ones((3, 4), int)
    values = optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels)
    assert float(data.per_token(values, jnp.ones((3, 4), bool))) == pytest.approx(float(values.mean()), rel=1e-6)
