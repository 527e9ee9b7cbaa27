"""What PyTorch gets back: the state dict of a client's module, and its graph as ONNX."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from idiolect.contracts import Params
from idiolect.errors import UserMistake
from idiolect.files import write_atomically
from idiolect.torch.hosted_module import HostedModule, plain_attention

Called = tuple[tuple[Any, ...], dict[str, Any]]


def state_dict(module: HostedModule, params: Params) -> dict[str, torch.Tensor]:
    """All of the module with these parameters, under PyTorch's names, frozen ones too."""
    return {name: tensor.clone() for name, tensor in _filled(module, params).state_dict().items()}


def write_model(module: HostedModule, called: Called, params: Params, file: Path, about: Mapping[str, str]) -> None:
    """Write the module with these parameters: its state dict, or the graph of the call seen when it was scored."""
    if file.suffix == ".onnx":
        _write_graph(_filled(module, params), called, file, about)
        return
    tensors = {name: tensor.contiguous() for name, tensor in state_dict(module, params).items()}
    write_atomically(file, save(tensors, metadata={"format": "pt", **about}))


def _write_graph(module: torch.nn.Module, called: Called, file: Path, about: Mapping[str, str]) -> None:
    args, named = called
    names = [*(f"input{place}" for place in range(len(args))), *named]
    try:
        import onnx

        with plain_attention(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter's age; the newer one needs onnxscript
            torch.onnx.export(
                module,
                args,
                str(file),
                kwargs=named,
                input_names=names,
                dynamo=False,
                dynamic_axes={name: {0: "rows"} for name in names},
            )
    except Exception as reason:  # PyTorch raises many kinds, for operators without a graph
        file.unlink(missing_ok=True)
        said = str(reason).strip().partition("\n")[0]
        raise UserMistake(
            f"PyTorch cannot write this module as ONNX ({type(reason).__name__}: {said}); ask for .safetensors"
        ) from None
    graph = onnx.load(file)
    onnx.helper.set_model_props(graph, dict(about))
    onnx.save(graph, file)


def _filled(module: HostedModule, params: Params) -> torch.nn.Module:
    return module.filled({name: torch.from_numpy(np.array(leaf)) for name, leaf in params.items()})
