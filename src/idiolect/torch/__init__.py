"""PyTorch modules as problems: `idiolect.torch.problem(module, loss, data)` (`pip install 'idiolect[torch]'`).

PyTorch is imported when this package is first used, and by nothing else.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from idiolect.errors import UserMistake

__all__ = ["problem"]


def __getattr__(name: str) -> Any:
    if name != "problem":
        raise AttributeError(f"module 'idiolect.torch' has no attribute '{name}'")
    if find_spec("torch") is None:
        raise UserMistake("idiolect.torch needs PyTorch; pip install 'idiolect[torch]'")
    from idiolect.torch.torch_problem import problem

    return problem


if TYPE_CHECKING:
    from idiolect.torch.torch_problem import problem
