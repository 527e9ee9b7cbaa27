"""Models of sequences against loops in NumPy and, where it is there, against PyTorch's own layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idiolect import UserMistake, catalog
from idiolect.options import make
from idiolect.problems.models import gru, transformer
from idiolect.registry import Choice
from idiolect.sharing import private_leaves

VOCABULARY, LENGTH = 7, 6
BUILT = {
    "gru": gru(VOCABULARY, LENGTH, embedding=3, hidden=5, layers=2),
    "transformer": transformer(VOCABULARY, LENGTH, width=4, heads=2, layers=2),
}
TOKENS = np.array([[1, 5, 0, 2, 6, 3], [4, 4, 1, 0, 2, 5]])


def filled(name):
    """Parameters that are nowhere zero or one."""
    shapes = jax.eval_shape(BUILT[name].init, jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: 0.5 * rng.standard_normal(leaf.shape).astype(np.float32), shapes)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_every_model_of_tokens_is_tested_here():
    assert set(BUILT) == set(catalog.TOKEN_MODELS)


def test_a_gru_is_the_loop_of_its_paper():
    """Cho et al. 2014, with the reset gate on U h and its bias, as in cuDNN."""
    params = filled("gru")
    x = params["embedding"]["weight"][TOKENS]
    for layer in params["layers"]:
        state, out = np.zeros((2, 5)), []
        (wr, wz, wn), (ur, uz, un) = np.split(layer["input"], 3, 1), np.split(layer["state"], 3, 1)
        (br, bz, bn), (cr, cz, cn) = np.split(layer["bias"], 3), np.split(layer["state_bias"], 3)
        for t in range(LENGTH):
            r = sigmoid(x[:, t] @ wr + br + state @ ur + cr)
            z = sigmoid(x[:, t] @ wz + bz + state @ uz + cz)
            n = np.tanh(x[:, t] @ wn + bn + r * (state @ un + cn))
            state = (1 - z) * n + z * state
            out.append(state)
        x = np.stack(out, axis=1)
    expected = x @ params["logits"]["weight"] + params["logits"]["bias"]
    np.testing.assert_allclose(BUILT["gru"].apply(params, TOKENS, None), expected, rtol=1e-4, atol=1e-5)


def normalized(layer, x):
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * layer["scale"] + layer["shift"]


def gelu(x):
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def test_a_transformer_is_attention_place_by_place():
    """Vaswani et al. 2017, Eq. (1), a head and a place at a time; normalization before each part."""
    params = filled("transformer")
    for row, tokens in enumerate(TOKENS):
        x = params["embedding"]["weight"][tokens] + params["embedding"]["places"]
        for layer in params["layers"]:
            a = layer["attention"]
            cut = np.stack([normalized(a, place) @ a["weight"] + a["bias"] for place in x])
            q, k, v = cut[:, :4], cut[:, 4:8], cut[:, 8:]
            mixed = np.zeros((LENGTH, 4))
            for head in (slice(0, 2), slice(2, 4)):
                for t in range(LENGTH):
                    scores = np.array([q[t, head] @ k[s, head] / np.sqrt(2) for s in range(t + 1)])
                    weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
                    mixed[t, head] = weights @ v[: t + 1, head]
            x = x + mixed @ a["out"]["weight"] + a["out"]["bias"]
            wide, narrow = layer["wide"], layer["narrow"]
            bent = gelu(np.stack([normalized(wide, place) for place in x]) @ wide["weight"] + wide["bias"])
            x = x + bent @ narrow["weight"] + narrow["bias"]
        last = params["logits"]
        expected = np.stack([normalized(last, place) for place in x]) @ last["weight"] + last["bias"]
        found = BUILT["transformer"].apply(params, TOKENS, None)[row]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", BUILT)
def test_nothing_depends_on_what_comes_later(name):
    params, model = filled(name), BUILT[name]
    logits = model.apply(params, TOKENS, None)
    for place in range(LENGTH):
        changed = TOKENS.copy()
        changed[:, place] = (changed[:, place] + 1) % VOCABULARY
        other = model.apply(params, changed, None)
        np.testing.assert_array_equal(other[:, :place], logits[:, :place])
        assert not np.allclose(other[:, place], logits[:, place])


@pytest.mark.parametrize("name", BUILT)
def test_the_last_layer_gives_the_logits_and_starts_are_random(name):
    params = BUILT[name].init(jax.random.key(0))
    last = private_leaves(params, ["last"])
    assert {leaf.split(".")[0] for leaf in last} == {"logits"}
    other = BUILT[name].init(jax.random.key(1))
    matrices = [(a, b) for a, b in zip(*map(jax.tree.leaves, (params, other)), strict=True) if a.ndim > 1]
    assert not any(jnp.array_equal(a, b) for a, b in matrices)


def test_heads_must_divide_the_width():
    with pytest.raises(UserMistake, match=r"model.heads is 3, but must divide model.width, which is 32"):
        make(catalog.TOKEN_MODELS, "model", Choice("transformer", {"heads": 3}), 5, 6)


def test_a_gru_is_that_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")
    params, theirs = filled("gru"), torch.nn.GRU(3, 5, num_layers=2, batch_first=True)
    with torch.no_grad():
        for depth, layer in enumerate(params["layers"]):
            names = {"weight_ih": "input", "weight_hh": "state", "bias_ih": "bias", "bias_hh": "state_bias"}
            for name, ours in names.items():
                getattr(theirs, f"{name}_l{depth}").copy_(torch.from_numpy(layer[ours].T.copy()))
        states = theirs(torch.from_numpy(params["embedding"]["weight"][TOKENS]))[0].numpy()
    expected = states @ params["logits"]["weight"] + params["logits"]["bias"]
    np.testing.assert_allclose(BUILT["gru"].apply(params, TOKENS, None), expected, rtol=1e-4, atol=1e-5)


def test_a_block_is_that_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")
    params = filled("transformer")
    x = torch.from_numpy(params["embedding"]["weight"][TOKENS] + params["embedding"]["places"])
    for layer in params["layers"]:
        theirs = torch.nn.TransformerEncoderLayer(4, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
        a, wide, narrow = layer["attention"], layer["wide"], layer["narrow"]
        told = {
            "self_attn.in_proj_weight": a["weight"].T, "self_attn.in_proj_bias": a["bias"],
            "self_attn.out_proj.weight": a["out"]["weight"].T, "self_attn.out_proj.bias": a["out"]["bias"],
            "norm1.weight": a["scale"], "norm1.bias": a["shift"],
            "norm2.weight": wide["scale"], "norm2.bias": wide["shift"],
            "linear1.weight": wide["weight"].T, "linear1.bias": wide["bias"],
            "linear2.weight": narrow["weight"].T, "linear2.bias": narrow["bias"],
        }  # fmt: skip
        theirs.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in told.items()})
        mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
        with torch.no_grad():
            x = theirs(x, src_mask=mask)
    last = params["logits"]
    rows = [[normalized(last, place) for place in row] for row in x.numpy()]
    expected = np.array(rows) @ last["weight"] + last["bias"]
    np.testing.assert_allclose(BUILT["transformer"].apply(params, TOKENS, None), expected, rtol=1e-3, atol=1e-4)
