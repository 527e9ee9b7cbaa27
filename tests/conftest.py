"""Tests neither use nor fill the user's cache of compiled programs."""

import os

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
