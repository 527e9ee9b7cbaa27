"""Widths of clients, first levels, layers that are kept, and rates that change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import catalog
from idiolect.contracts import Compressed
from idiolect.errors import UserMistake
from idiolect.problems.models.networks import cnn, mlp
from idiolect.problems.synthetic import quadratics
from idiolect.quantization.codebooks import deal_widths, first_levels, fit_levels
from idiolect.quantization.layers import USUALLY_KEPT, named_leaves, quantized_layers, replace_leaves
from idiolect.quantization.personal import Own, rounding
from idiolect.quantization.rates import Changing, is_zero, rate_at
from idiolect.quantization.views import view_layers


def test_widths_for_all_for_each_and_by_a_rule():
    assert [deal_widths(3).levels(k) for k in (0, 99)] == [8, 8]
    each = deal_widths([1, 32, 2])
    assert ([each.levels(k) for k in range(3)], each.clients) == ([2, 0, 4], 3)
    rule = deal_widths({3: 15, 2: 5})
    assert ([rule.levels(k) for k in (0, 14, 15, 19)], rule.clients) == ([8, 8, 4, 4], 20)
    assert deal_widths(2, levels=3).levels(0) == 3
    assert deal_widths(8).levels(0) == deal_widths(2, levels=256).levels(0) == 256, "the most"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 0}, "objective.bits is 0, but must be 1 to 8, or 32"),
        ({"bits": 9}, "objective.bits is 9"),
        ({"bits": 16}, "objective.bits is 16"),
        ({"levels": 257}, "objective.levels is 257, but must be 2 to 256"),
        ({"levels": 0}, "objective.levels is 0, but must be 2 to 256"),
        ({"levels": 1}, "objective.levels is 1"),
        ({"bits": [2, 2, 3]}, "objective.bits is for 3 clients, but the problem has 4"),
        ({"bits": {3: 3, 2: 2}}, "objective.bits is for 5 clients, but the problem has 4"),
        ({"bits": {3: 4, 2: 0}}, "to 0 clients"),
        ({"levels": 3, "centers": [0.0, 1.0, 1.0]}, "must differ"),
        ({"levels": 3, "centers": [0.0, 1.0]}, "has 2 levels, but client 0 has 3"),
        ({"levels": 2, "centers": [0.0, float("nan")]}, "must be finite"),
        ({"keep": ["dense.*"]}, "'dense.*', which matches no layer"),
        ({"keep": ["first"]}, "leaves none of the layers"),
        ({"lambda": -1.0}, "lambda"),
        ({"step_size": {"value": 0.1, "decay": 0}}, "decay"),
        ({"momentum": 1.0}, "momentum"),
    ],
)
def test_bad_options_get_one_sentence(options, message):
    problem = quadratics(clients=4, dimension=3)
    with pytest.raises(UserMistake, match=message.replace("*", r"\*").replace(".", r"\.")):
        catalog.algorithm("qupel", problem, objective={"keep": [], **options})


def test_levels_for_so_many_clients_are_counted_without_a_server_as_well():
    catalog.algorithm("quantized+running_sum", quadratics(clients=4), objective={"keep": []})
    with pytest.raises(UserMistake, match="is for 3 clients, but the problem has 4"):
        catalog.algorithm("quantized+running_sum", quadratics(clients=4), objective={"keep": [], "bits": [1, 1, 1]})


def test_quantiles_share_the_weights_out_and_kmeans_finds_the_clusters():
    weights = jnp.asarray(np.random.default_rng(0).standard_normal((50, 40)), jnp.float32)
    quantiles = np.asarray(first_levels(weights, 4, "quantiles"))
    np.testing.assert_allclose(quantiles, np.quantile(weights, [0.125, 0.375, 0.625, 0.875]), rtol=1e-5)
    clusters = jnp.asarray([-1.02, -0.98, -1.0, 0.3, 0.32, 2.0, 2.04, 2.02])
    np.testing.assert_allclose(first_levels(clusters, 3, "kmeans"), [-1.0, 0.31, 2.02], atol=1e-5)
    by_hand = first_levels(clusters, 2, [1.0, -1.0])
    np.testing.assert_allclose(by_hand, np.array([-1, 1]) * np.abs(clusters).mean(), rtol=1e-6)


def test_lloyd_never_makes_the_fit_worse_and_leaves_lonely_levels_alone():
    weights = jnp.asarray(np.random.default_rng(1).standard_normal(300), jnp.float32)
    start = jnp.array([-0.1, 0.0, 0.1, 50.0])
    fitted = np.asarray(fit_levels(weights, start))
    assert fitted[-1] == 50.0

    def cost(levels):
        return (np.abs(np.asarray(weights)[:, None] - levels).min(1) ** 2).sum()

    assert cost(fitted) < 0.5 * cost(np.asarray(start))


def test_layers_have_names_and_some_are_kept():
    params = cnn((28, 28, 1), 10).init(jax.random.key(0))
    matrices = ["convolutions.0.weight", "convolutions.1.weight", "dense.0.weight", "dense.1.weight"]
    assert quantized_layers(params, ["vectors"]) == matrices
    assert quantized_layers(params, USUALLY_KEPT) == matrices[1:3]
    assert quantized_layers(params, ["vectors", "conv*"]) == matrices[2:]
    net = mlp((4, 4, 1), 3, hidden=(5,)).init(jax.random.key(0))
    assert quantized_layers(net, ["last", "vectors"]) == ["0.weight"]
    assert quantized_layers(net, ["last"]) == ["0.bias", "0.weight", "1.bias"]
    assert quantized_layers({"w": jnp.zeros(3)}, ["vectors"]) == ["w"]  # a model of vectors is quantized all the same
    doubled = replace_leaves(net, {"0.weight": 2 * named_leaves(net)["0.weight"]})
    np.testing.assert_array_equal(doubled[0]["weight"], 2 * net[0]["weight"])
    assert doubled[1] is not net[1]
    np.testing.assert_array_equal(doubled[1]["weight"], net[1]["weight"])


def test_rates_grow_decay_and_drop():
    steps = [jnp.int32(t) for t in (0, 9, 10, 25)]
    grown = Changing(growth=1e-4, every=10)
    assert [float(rate_at(grown, t)) for t in steps] == pytest.approx([0, 0, 1e-4, 2e-4])
    decayed = Changing(value=0.1, decay=0.5, every=10)
    assert [float(rate_at(decayed, t)) for t in steps] == pytest.approx([0.1, 0.1, 0.05, 0.025])
    dropped = Changing(value=1.0, at=[10, 20])
    assert [float(rate_at(dropped, t)) for t in steps] == pytest.approx([1.0, 1.0, 0.1, 0.01])
    assert float(rate_at(0.3, steps[0])) == pytest.approx(0.3)


def test_a_view_counts_weights_in_bins_with_an_empty_one_on_either_side():
    """Forty-eight bins, of which the weights from 0 to 45 have no more than forty-six; the levels are as they are."""
    weights = {"weight": jnp.arange(46.0).reshape(46, 1)}
    view = view_layers(Compressed(weights, weights, {"weight": jnp.array([-2.0, 50.0])}))["weight"]
    assert view.levels == [-2.0, 50.0]
    assert (view.low, view.high) == (pytest.approx(-1), pytest.approx(46)), "45 in all, and a margin of 45 / 45"
    assert (view.counts[0], view.counts[-1]) == (0, 0)
    assert (len(view.counts), sum(view.counts)) == (48, 46)


def test_how_far_weights_are_from_their_levels_on_average():
    weights = {"a": jnp.array([[0.1, 0.9], [1.4, -3.0]]), "b": jnp.array([[5.0, 6.5]])}
    levels = {"a": jnp.array([0.0, 1.0]), "b": jnp.array([5.0, 6.0])}
    own = Own(weights, levels, (), jnp.int32(0))
    assert float(rounding(own)["rounding"]) == pytest.approx((0.1 + 0.1 + 0.4 + 3.0 + 0.0 + 0.5) / 6)
    assert float(rounding(own._replace(levels={}))["rounding"]) == 0


def test_a_rate_is_zero_for_ever_only_if_it_never_grows():
    assert is_zero(0.0)
    assert is_zero(Changing(0.0))
    assert not is_zero(1.0)
    assert not is_zero(Changing(1.0))
    assert not is_zero(Changing(0.0, growth=0.1))
