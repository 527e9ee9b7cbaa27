"""The PyTorch modules that are measured: an MLP, a CNN, and a small BERT with LoRA, with data made up for each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

CLIENTS, ROWS, BATCH, LOCAL_STEPS, STEP_SIZE = 8, 256, 32, 10, 0.01
WORDS, LENGTH = 2000, 64
MODELS = ("mlp", "cnn", "bert-lora")


class Case(NamedTuple):
    """A module, its loss, every client's rows, and what learns."""

    module: nn.Module
    loss: Callable[[nn.Module, Any], torch.Tensor]
    data: list[dict[str, np.ndarray]]
    train: str | None


def case(model: str) -> Case:
    """One of the models."""
    torch.manual_seed(0)
    if model == "bert-lora":
        return Case(_bert(), lambda module, batch: module(**batch).loss, _messages(), "lora")
    return Case(_mlp() if model == "mlp" else _cnn(), _cross_entropy, _images(), None)


def _cross_entropy(module: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(module(batch["image"]), batch["label"])


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 80), nn.ELU(), nn.Linear(80, 60), nn.ELU(), nn.Linear(60, 10))


def _cnn() -> nn.Module:
    first = [nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))


def _bert() -> nn.Module:
    import peft
    import transformers

    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=LENGTH,
        num_labels=2,
    )
    adapters = peft.LoraConfig(task_type="SEQ_CLS", r=8, lora_alpha=16, target_modules=["query", "value"])
    return peft.get_peft_model(transformers.BertForSequenceClassification(config), adapters)


def _images() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((ROWS, 1, 28, 28)).astype(np.float32) for _ in range(CLIENTS)]
    return [{"image": drawn, "label": rng.integers(0, 10, ROWS)} for drawn in images]


def _messages() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    words = [rng.integers(1, WORDS, (ROWS, LENGTH)) for _ in range(CLIENTS)]
    mask, labels = np.ones((ROWS, LENGTH), np.int64), rng.integers(0, 2, ROWS)
    return [{"input_ids": drawn, "attention_mask": mask, "labels": labels} for drawn in words]
