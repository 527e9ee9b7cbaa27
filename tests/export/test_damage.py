"""Damaged and forged bundles: always a `BundleError` that names the file, never anything else."""

import copy
import json
import re
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.export.bundle import write_bundle
from idiolect.export.reader import BundleError, digest, read_bundle
from idiolect.problems.models import mlp
from tests.export.compressing import randomly, rounded


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("damage") / "model.safetensors"


@pytest.fixture(scope="module")
def whole(path):
    """The bytes of a good bundle with a layer in full precision and one of three levels."""
    write_bundle(
        path,
        rounded(randomly(mlp((3, 1, 1), 2, hidden=(2,)), 0), 3, keep=["first"]),
        {"client": "3", "note": "\x1f\t\\"},
    )
    return path.read_bytes()


def refused(path, content):
    path.write_bytes(content)
    with pytest.raises(BundleError, match=re.escape(f"bundle {path} ")) as caught:
        read_bundle(path)
    return str(caught.value)


def test_a_flipped_bit_is_found_in_every_byte(path, whole):
    for place in range(len(whole)):
        refused(path, whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])


def test_a_changed_weight_is_found_by_the_digest(path, whole):
    assert "is damaged: its digest does not match" in refused(path, whole[:-1] + bytes([whole[-1] ^ 1]))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_byte_changed_is_found(path, whole, data):
    place, change = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
    refused(path, whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_truncation_is_found(path, whole, data):
    refused(path, whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_is_cut_out_and_put_in_is_found(path, whole, data):
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 12)))
    put = data.draw(st.one_of(st.binary(max_size=12), st.text(' {}[]",:0123456789eE-\\u', max_size=12).map(str.encode)))
    if put != whole[start:end]:
        changed = whole[:start] + put + whole[end:]
        if changed != whole:
            refused(path, changed)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_no_bundle(path, noise):
    refused(path, noise)
    refused(path, struct.pack("<Q", len(noise)) + noise)


def taken_apart(whole):
    (length,) = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8 : 8 + length])
    metadata = header.pop("__metadata__")
    return header, metadata | {key: json.loads(metadata[key]) for key in ("layers", "about")}, whole[8 + length :]


def forged(header, metadata, data):
    """A bundle from parts that may contradict each other, with a digest as right as it can be made."""
    texts = {key: json.dumps(value) if key in ("layers", "about") else value for key, value in metadata.items()}
    try:
        kinds = {"U8": np.uint8, "F32": np.float32}
        tensors = {
            name: np.frombuffer(data[slice(*entry["data_offsets"])], kinds[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()
        }
        texts["digest"] = digest(texts, tensors)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        pass  # then the reader must refuse it before it comes to the digest
    text = json.dumps({"__metadata__": texts, **header}, ensure_ascii=False, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_a_forgery_of_the_right_parts_is_read(path, whole):
    path.write_bytes(forged(*taken_apart(whole)))
    assert read_bundle(path).about == {"client": "3", "note": "\x1f\t\\"}


PLANES, LEVELS, WHOLE = "1.weight.planes", "1.weight.levels", "0.bias"
FORGERIES = [
    (lambda h, m, d: (h, m | {"format": "other"}, d), "is not of the format idiolect-bundle"),
    (lambda h, m, d: (h, m | {"version": "2"}, d), "has version '2', but this reader knows version '1'"),
    (lambda h, m, d: (h, m | {"more": "text"}, d), "must have the texts about, digest"),
    (lambda h, m, d: (h, m | {"about": [1]}, d), "no JSON table in its metadata under 'about'"),
    (lambda h, m, d: (h, m, d + b"\0"), "bytes of data, but its tensors fill"),
    (lambda h, m, d: (h | {"x": 3}, m, d), "describes tensor 'x' by something else"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"dtype": "I64"}}, m, d), "of a type other than U8 and F32"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"dtype": ["U8"]}}, m, d), "of a type other than U8 and F32"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"data_offsets": [0, 10**18]}}, m, d), "outside of its"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"data_offsets": [-1, 1]}}, m, d), "outside of its"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"shape": [10**12, 10**12, 0]}}, m, d), "a shape that does not fit"),
    (lambda h, m, d: (h | {PLANES: h[PLANES] | {"shape": [True, 2]}}, m, d), "a shape that does not fit"),
    (lambda h, m, d: (h | {"x": h[PLANES]}, m, d), "overlap or leave a gap"),
    (lambda h, m, d: ({k: v for k, v in h.items() if k != LEVELS}, m, d), "overlap or leave a gap"),
    (lambda h, m, d: (h | {"x": h[PLANES] | {"shape": [0], "data_offsets": [0, 0]}}, m, d), "does not fit its 0 bytes"),
    (lambda h, m, d: ({k.replace("1", "2"): v for k, v in h.items()}, m, d), "lists other layers"),
    (lambda h, m, d: (h, m | {"layers": m["layers"] | {"x": []}}, d), "describes layer 'x' by something else"),
    (lambda h, m, d: (h, listed(m, "1.weight", levels=4), d), "lists other bits and levels for layer '1.weight'"),
    (lambda h, m, d: (h, listed(m, "1.weight", bits=10**9), d), "lists other bits and levels for layer '1.weight'"),
    (lambda h, m, d: (h, listed(m, "1.weight", shape=[2, 9]), d), "planes for layer '1.weight' that do not fit"),
    (lambda h, m, d: (h, listed(m, "1.weight", shape=[2**70]), d), "planes for layer '1.weight' that do not fit"),
    (lambda h, m, d: (h, listed(m, "1.weight", shape=[0, 2**62, 2**62]), d), "planes for layer '1.weight' that do not"),
    (lambda h, m, d: (h, listed(m, "0.bias", shape=[3]), d), "has layer '0.bias' of another shape or type"),
    (lambda h, m, d: (h | {WHOLE: h[WHOLE] | {"dtype": "U8", "shape": [8]}}, m, d), "has layer '0.bias' of another"),
    (lambda h, m, d: (h | {LEVELS: h[LEVELS] | {"shape": [3, 1]}}, m, d), "no list of finite float32 numbers"),
    (lambda h, m, d: (h, m, overwritten(d, h[LEVELS], b"\xff")), "no list of finite float32 numbers"),
    (lambda h, m, d: (h, m, overwritten(d, h[PLANES], b"\xff")), "a weight in layer '1.weight' beyond its 3 levels"),
]


def listed(metadata, name, **changed):
    return metadata | {"layers": metadata["layers"] | {name: metadata["layers"][name] | changed}}


def overwritten(data, entry, byte):
    start, end = entry["data_offsets"]
    return data[:start] + byte * (end - start) + data[end:]


@pytest.mark.parametrize(("forge", "said"), FORGERIES)
def test_a_forgery_with_the_right_digest_is_refused_with_a_sentence(path, whole, forge, said):
    assert said in refused(path, forged(*forge(*taken_apart(whole))))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1234", "is too short: 4 bytes cannot hold a header"),
        (struct.pack("<Q", 2**63) + b"{}", "announces a header of 9223372036854775808 bytes, but has 2 left"),
        (struct.pack("<Q", 4) + b"{]  ", "has a header that is not JSON"),
        (struct.pack("<Q", 2) + b"\xff\xff", "has a header that is not JSON"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "has a header that is not JSON"),
        (struct.pack("<Q", 9999) + b"9" * 9999, "has a header that is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "has a header that safetensors would not write"),
        (struct.pack("<Q", 3) + b"{ }", "has a header that safetensors would not write"),
        (struct.pack("<Q", 2) + b"{}", "is not of the format idiolect-bundle"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_a_sentence(path, content, said):
    assert said in refused(path, content)


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(BundleError, match="missing cannot be read: No such file or directory"):
        read_bundle(tmp_path / "missing")


def places(tree, path=()):
    yield path
    branches = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, branch in branches:
        yield from places(branch, (*path, key))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["U8", "F32", "", "x"]) | st.just(2**64),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["shape", "bits", "x"]), inner),
    max_leaves=6,
)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_no_forged_number_leads_to_anything_but_a_refusal(path, whole, data):
    """Any part of the header replaced by any JSON, with the right digest where there is one: read, or refused."""
    header, metadata, tensors = taken_apart(whole)
    tree = copy.deepcopy({"header": header, "layers": metadata["layers"]})
    *above, last = data.draw(st.sampled_from([place for place in places(tree) if place]))
    branch = tree
    for key in above:
        branch = branch[key]
    branch[last] = data.draw(JSON)
    if not isinstance(tree["header"], dict):
        tree["header"] = {"x": tree["header"]}
    path.write_bytes(forged(tree["header"], metadata | {"layers": tree["layers"]}, tensors))
    try:
        params = read_bundle(path).params
    except BundleError:
        return
    assert sum(leaf.size for leaf in params.values()) <= 8 * len(whole)
