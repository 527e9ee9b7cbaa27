"""A pool of threads for client work on all cores: one compiled call a client.

On CPUs, clients in parallel and one core for each beats batching the clients into one large computation: the operators
are small, and a batch of models turns matrix products into slower ones. XLA releases the interpreter while it runs, so
threads are enough.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import jax

# Asks XLA not to spread one client's operators over the cores, which other clients keep busy. It is only a request:
# large matrix products have been seen on two cores all the same.
COMPILER_OPTIONS = {"xla_cpu_multi_thread_eigen": False}


class Workers:
    """A few threads that call compiled functions. Results do not depend on how many there are."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or _usable_cores()
        self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="client")
        self._compiled: set[Callable[..., Any]] = set()

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run `function(*args)` on a thread. A function's first call waits, so that it is compiled only once."""
        future = self._pool.submit(_finish, function, args)
        if function not in self._compiled:
            self._compiled.add(function)
            future.exception()
        return future

    def run(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run any function on a thread, whatever it returns."""
        return self._pool.submit(function, *args)

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def compile_for_clients(function: Callable[..., Any], donate: tuple[int, ...] = ()) -> Callable[..., Any]:
    """`jax.jit`, tuned for functions that run once per client. They may overwrite the arguments they are given."""
    options = COMPILER_OPTIONS if jax.default_backend() == "cpu" else None
    return jax.jit(function, compiler_options=options, donate_argnums=donate)


def _finish(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = function(*args)
    jax.tree.leaves(result)[-1].block_until_ready()  # the results of one program are ready together
    return result


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
