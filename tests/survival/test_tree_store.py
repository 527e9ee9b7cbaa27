"""Trees in memory and, beyond a budget, on disk: a store is a dict, whatever its budget."""

import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.engines.tree_store import MemoryBudget, TreeStore


def tree(number: int, width: int) -> dict[str, object]:
    return {"a": np.full((width, 2), number, np.float32), "b": (np.int32(number), np.float64(number) / 3)}


def same(left: object, right: object) -> bool:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all((a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()) for a, b in pairs)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 200),
    st.lists(st.tuples(st.sampled_from(["set", "delete", "get"]), st.integers(0, 5), st.integers(0, 3)), max_size=40),
)
def test_a_store_is_a_dict_whatever_its_budget(budget, actions):
    store, plain = TreeStore(MemoryBudget(budget)), {}
    for time, (action, number, width) in enumerate(actions):
        if action == "set":
            store[number] = plain[number] = tree(time, width)
        elif action == "delete" and number in plain:
            del store[number], plain[number]
        assert list(store) == sorted(plain)
        assert (number in store) == (number in plain)
        for key, value in store.items():
            assert same(value, plain[key])


def test_what_was_taken_down_does_not_change_when_something_else_is_put_there():
    store = TreeStore(MemoryBudget(0))
    store[1] = tree(1, 4)
    taken = store[1]
    store[1] = tree(2, 4)
    del store[1]
    store[2] = tree(3, 4)
    assert same(taken, tree(1, 4))


def test_slots_are_used_again_and_memory_holds_no_more_than_its_budget(tmp_path):
    store = TreeStore(MemoryBudget(10 * 44, tmp_path))
    for time in range(500):
        store[time % 50] = tree(time, 4)
    assert store._used <= 10 * 44
    assert store._file._end == 40 * 44
    assert list(tmp_path.iterdir()) == [], "the file has no name, and so cannot be left behind"


def test_a_missing_number_is_a_key_error():
    for budget in (0, 100):
        store = TreeStore(MemoryBudget(budget))
        store[1] = tree(1, 1)
        with pytest.raises(KeyError):
            store[2]


def test_a_disk_without_room_is_one_sentence_and_no_signal(tmp_path):
    """On a file system of 64 kB, whose holes would end the process with SIGBUS when they are written to."""
    code = (
        "import numpy as np; from pathlib import Path; from idiolect.engines.tree_store import *; "
        f"store = TreeStore(MemoryBudget(0, Path('{tmp_path}')))\n"
        "try:\n    for k in range(64): store[k] = np.ones(1024, np.float32)\n"
        "except Exception as reason: print(type(reason).__name__, reason)"
    )
    shell = f'mount -t tmpfs -o size=64k none "{tmp_path}" || exit 77; exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", shell, "sh", sys.executable, "-c", code]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare to make a small file system with")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (1, 77):
        pytest.skip(f"no small file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, f"ended by signal {-done.returncode}"
    assert done.stdout.startswith(
        f"UserMistake {tmp_path} cannot hold what clients keep beyond --client-memory: No space"
    )


def test_where_no_call_reserves_room_zeros_do(tmp_path, monkeypatch):
    """As on macOS and Windows: a hole in a file would only be filled when it is written to."""
    monkeypatch.delattr("os.posix_fallocate", raising=False)
    store = TreeStore(MemoryBudget(0, tmp_path))
    for number in range(40):
        store[number] = tree(number, 10_000)
    disk = store._file
    assert os.fstat(disk._file.fileno()).st_blocks * 512 >= disk._end
    for number in (0, 39):
        assert same(store[number], tree(number, 10_000))
