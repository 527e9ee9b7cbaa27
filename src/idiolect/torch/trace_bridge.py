"""The bridge `trace`: the module becomes JAX code through torchax, and is compiled with all the rest.

There is no call to the host, and XLA fuses what it can. Convolutions inside of a loop are slow on CPUs, though, and so
are modules with many small convolutions; `idiolect inspect` tries both bridges. Dropout masks are JAX's: from the same
key they are the same ones, but not those of the bridge `call`. What does not learn is part of every compiled program.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import torch

from idiolect.contracts import Batch, Key, Params, Scalar
from idiolect.errors import UserMistake
from idiolect.torch.call_bridge import Bridge, call_bridge
from idiolect.torch.hosted_module import HostedModule, Reckon, Use, plain_attention
from idiolect.torch.torch_functions import Told


def trace_bridge(module: HostedModule, loss: Reckon, score: Reckon | None, told: Told) -> Bridge:
    """The module's functions as JAX code, which JAX differentiates. Without a score, the loss is scored."""
    run = _runner(module)

    def keyed(params: Params, batch: Batch, key: Key) -> Scalar:
        learned = {name: params[name] for name in module.parts.trained}
        still = {name: jax.lax.stop_gradient(params[name]) for name in module.parts.statistics}
        return run("train", loss, {**learned, **still}, batch, key)

    def scored(params: Params, batch: Batch) -> Scalar:
        return run("score", score or loss, params, batch, jax.random.key(0)).astype(jnp.float32).mean()

    # torchax does not update the statistics of batches, so PyTorch measures them.
    return Bridge(keyed, scored, call_bridge(module, loss, score, told).measure)


def _runner(module: HostedModule) -> Callable[[Use, Reckon, Params, Batch, Key], jax.Array]:
    """(use, what, weights, batch, key) -> what is reckoned."""
    try:
        import torchax
        from torchax.interop import jax_view, torch_view
    except (ImportError, AttributeError) as reason:  # releases before 0.0.14 look for what PyTorch no longer has
        raise UserMistake(
            "bridge is 'trace', which needs torchax >= 0.0.14.dev20261026; pip install 'idiolect[torchax]' "
            f"({type(reason).__name__}: {reason})"
        ) from None
    frozen = {name: _as_jax(tensor) for name, tensor in module.frozen.items()}

    def run(use: Use, reckon: Reckon, weights: Params, batch: Batch, key: Key) -> jax.Array:
        env = torchax.default_env()
        with env, env.override_property(prng=key), plain_attention():
            return jax_view(module(use, reckon, torch_view({**frozen, **weights}), torch_view(batch)))

    return run


def _as_jax(tensor: torch.Tensor) -> jax.Array:
    if tensor.dtype == torch.bfloat16:  # which NumPy does not know
        return jnp.asarray(tensor.float().numpy(), jnp.bfloat16)
    return jnp.asarray(tensor.numpy())
