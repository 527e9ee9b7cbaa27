"""How long tests may compile: programs that run once, for milliseconds, are not worth optimizing."""

import os
import subprocess
import sys

import jax

# XLA's older way to write loops: compiling takes a third of the time, and what comes out is up to 1.5 times as slow.
_OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false"


def compile_in_a_hurry() -> None:
    """In this process, if it has not compiled anything yet, and in those that it starts."""
    jax.config.update("jax_disable_most_optimizations", True)
    os.environ |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": _known_flags()}


def _known_flags() -> str:
    before = os.environ.get("XLA_FLAGS", "")
    flags = f"{before} {_OLDER_EMITTERS}".strip()
    # A flag that this version of XLA does not know would end the process, so let another one try.
    trial = [sys.executable, "-c", "import jax; jax.jit(lambda: 0)()"]
    done = subprocess.run(trial, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, check=False)
    return flags if done.returncode == 0 else before
