"""Tests neither use nor fill the user's cache of compiled programs, and none of them watches the clock."""

import os

from hypothesis import settings

os.environ.setdefault("JAX_ENABLE_COMPILATION_CACHE", "false")
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
