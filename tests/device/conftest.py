"""A good bundle, for tests that spoil it."""

import pytest

from idiolect.export.bundle import write_bundle
from idiolect.export.plans import plan
from idiolect.problems.models.networks import mlp
from tests.export.compressing import randomly, rounded


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("damage") / "model.safetensors"


@pytest.fixture(scope="module")
def whole(path):
    """The bytes of a good bundle with a layer in full precision and one of three levels."""
    compressed = rounded(randomly(mlp((3, 1, 1), 2, hidden=(2,)), 0), 3, keep=["first"])
    steps = plan({"name": "mlp"}, compressed.params, (3, 1, 1), 2)
    write_bundle(path, compressed, {"client": "3", "note": "\x1f\t\\"}, steps)
    return path.read_bytes()
