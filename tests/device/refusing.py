"""How a reader refuses a bundle: by a `BundleError` that names the file, and by nothing else."""

import re

import pytest

from idiolect.device import BundleError, read_bundle


def refused(path, content):
    """The sentence with which these bytes, or what the file has, are refused."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BundleError, match=re.escape(f"bundle {path} ")) as caught:
        read_bundle(path)
    return str(caught.value)
