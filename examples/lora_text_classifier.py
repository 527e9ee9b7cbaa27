"""A text classifier for every user: a small BERT whose LoRA adapters alone learn and travel.

Users write short messages and call them good or bad; some words mean the opposite to some of them. The frozen BERT is
stored once. `python examples/lora_text_classifier.py` fine-tunes with a server (PersA-FL-ME) and without one
(PARS-Push). The BERT is made from a config, with random weights, since nothing is downloaded here; put
`BertForSequenceClassification.from_pretrained(...)` in its place, and your users' texts through its tokenizer.

Needs: pip install 'idiolect[torch]' transformers peft
"""

import sys

import numpy as np
import peft
import torch
import transformers

import idiolect
import idiolect.torch

USERS, MESSAGES, LENGTH, WORDS = 8, 60, 8, 50
PAD = 0


def users() -> list[dict[str, np.ndarray]]:
    """Messages of words; each user's taste says what good words are, alike for most words."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal(WORDS)
    found = []
    for _ in range(USERS):
        taste = common + 0.8 * rng.standard_normal(WORDS)
        lengths = rng.integers(3, LENGTH + 1, (MESSAGES, 1))
        mask = np.arange(LENGTH) < lengths
        words = np.where(mask, rng.integers(1, WORDS, (MESSAGES, LENGTH)), PAD)
        labels = (np.where(mask, taste[words], 0).sum(1) > 0).astype(np.int64)
        found.append({"input_ids": words, "attention_mask": mask.astype(np.int64), "labels": labels})
    return found


def classifier() -> torch.nn.Module:
    """A small BERT with adapters in its attention, and a head that learns as well."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=2,
    )
    adapters = peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=16, target_modules=["query", "value"])
    return peft.get_peft_model(transformers.BertForSequenceClassification(config), adapters)


def loss(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """What transformers computes."""
    return module(**batch).loss


def right(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """One number for each message."""
    logits = module(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    return logits.argmax(-1) == batch["labels"]


def experiment(horizon: float = 150.0, points: int = 5) -> idiolect.Experiment:
    """With a server, and without one."""
    problem = idiolect.torch.problem(classifier(), loss, users(), train="lora", score=right, name="messages")
    return idiolect.Experiment(
        problem,
        ["persa_fl_me", "pars_push"],
        horizon=horizon,
        training=idiolect.Training(local_steps=2, step_size=0.1, batch_size=16),
        evaluation=idiolect.Evaluation(points=points, steps=[0, 1], step_size=0.1),
        name="lora-text-classifier",
    )


def main(out: str = "runs/lora-text-classifier", horizon: float = 150.0, points: int = 5) -> None:
    """Run it, and say what learned."""
    whole = experiment(horizon, points)
    run = idiolect.run(whole, out=out)
    every = run.state_dict(0, "persa_fl_me")
    learned = sum(leaf.size for leaf in run.model(0, "persa_fl_me").values())
    print(f"{learned} of {sum(tensor.numel() for tensor in every.values())} numbers learn and travel")
    for label, found in run.summary.algorithms.items():
        print(f"{label}: {found.participating['personalized'].mean:.3f} after adaptation")


if __name__ == "__main__":
    main(*sys.argv[1:2])
