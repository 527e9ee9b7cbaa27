"""A small BERT with peft's LoRA: only the adapters learn and travel, by both bridges, for each of its users."""

import functools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")
peft = pytest.importorskip("peft", reason="peft is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import jax  # noqa: E402

import idiolect  # noqa: E402
import idiolect.torch  # noqa: E402

ROWS, LENGTH, WORDS = 24, 6, 40
KEY = jax.random.key(5)


def make_bert(dropout=0.0):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=2,
    )
    model = transformers.BertForSequenceClassification(config)
    adapters = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_dropout=dropout, target_modules=["query", "value"])
    return peft.get_peft_model(model, adapters)


def data():
    rng = np.random.default_rng(0)
    tokens = [rng.integers(1, WORDS, (ROWS, LENGTH)) for _ in range(3)]
    masks = [(np.arange(LENGTH) < rng.integers(2, LENGTH + 1, (ROWS, 1))).astype(np.int64) for _ in range(3)]
    return [
        {"input_ids": t, "attention_mask": m, "labels": (t[:, 0] > WORDS // 2).astype(int)}
        for t, m in zip(tokens, masks, strict=True)
    ]


def loss(module, batch):
    return module(**batch).loss


def right(module, batch):
    logits = module(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return logits.argmax(-1) == batch["labels"]


@functools.cache
def lora_problem(bridge="call", dropout=0.0):
    return idiolect.torch.problem(make_bert(dropout), loss, data(), train="lora", bridge=bridge, score=right)


def test_only_adapters_and_the_saved_head_learn():
    names = set(lora_problem().init(KEY))
    assert names == {name for name, parameter in make_bert().named_parameters() if parameter.requires_grad}
    assert all("lora_" in name or "modules_to_save" in name for name in names)
    assert sum(leaf.size for leaf in lora_problem().init(KEY).values()) < 0.2 * sum(
        p.numel() for p in make_bert().parameters()
    )


def test_both_bridges_give_the_derivatives_of_a_hand_written_pytorch_call():
    problem, params = lora_problem(), lora_problem().init(KEY)
    rng = np.random.default_rng(1)
    params = {name: leaf + 0.1 * rng.standard_normal(leaf.shape).astype(np.float32) for name, leaf in params.items()}
    vector = {name: rng.standard_normal(leaf.shape).astype(np.float32) for name, leaf in params.items()}
    shard = problem.clients.train._replace(sizes=np.ones(3, np.int32)).shard(0)
    row = {
        name: torch.tensor(np.asarray(values)[[int(shard.start)]], dtype=torch.int64)
        for name, values in shard.rows.items()
    }
    module = make_bert().train()
    module.base_model.model.set_attn_implementation("eager")
    leaves = {name: p for name, p in module.named_parameters() if name in params}
    with torch.no_grad():
        for name, p in leaves.items():
            p.copy_(torch.tensor(np.asarray(params[name])))
    value = loss(module, row)
    grads = torch.autograd.grad(value, list(leaves.values()), create_graph=True)
    inner = sum((g * torch.tensor(vector[name])).sum() for g, name in zip(grads, leaves, strict=True))
    products = torch.autograd.grad(inner, list(leaves.values()))
    for bridge in ("call", "trace"):
        if bridge == "trace" and not pytest.importorskip("torchax", reason="torchax is not installed"):
            continue
        oracle = lora_problem(bridge).oracle(shard, 2)
        found, slopes = jax.jit(oracle.gradient)(params, KEY)
        curved = jax.jit(oracle.hessian_product)(params, vector, KEY)
        np.testing.assert_allclose(found, value.item(), rtol=1e-5)
        for name, g, h in zip(leaves, grads, products, strict=True):
            np.testing.assert_allclose(slopes[name], g.detach(), atol=1e-5, err_msg=f"{bridge} {name}")
            np.testing.assert_allclose(curved[name], h, atol=2e-5, err_msg=f"{bridge} {name}")


@pytest.mark.parametrize("algorithm", ["persa_fl_me", "pars_push"])
def test_users_learn_with_dropout_and_nothing_frozen_is_kept(algorithm, tmp_path):
    problem = lora_problem(dropout=0.1)
    training = idiolect.Training(local_steps=1, step_size=0.05, batch_size=4)
    scoring = idiolect.Evaluation(points=1, steps=[0], at_most=1)
    experiment = idiolect.Experiment(
        problem, [algorithm], horizon=6.0, training=training, evaluation=scoring, name="lora"
    )
    run = idiolect.run(experiment, out=tmp_path / "run")
    held = run.parameters()
    trained = set(problem.init(KEY))
    assert {name for name in held if not any(part in name for part in trained)} == set()
    whole = run.state_dict(0)
    module = make_bert()
    assert module.load_state_dict(whole).missing_keys == []
    frozen = {name: value for name, value in make_bert().state_dict().items() if name not in trained}
    assert all(torch.equal(whole[name], value) for name, value in frozen.items())
    assert problem.origin.bridge == "call"
