"""Damaged and forged bundles: always a `BundleError` that names the file, never anything else."""

import base64
import copy
import json
import re
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.export.bundle import write_bundle
from idiolect.export.reader import BundleError, digest, read_bundle
from idiolect.problems.models.networks import mlp
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
    layers = json.loads(zlib.decompress(base64.b64decode(metadata["layers"])))
    return header, metadata | {"layers": layers, "about": json.loads(metadata["about"])}, whole[8 + length :]


def deflated(text):
    return base64.b64encode(zlib.compress(text)).decode()


def followed(text):
    return base64.b64encode(zlib.compress(text) + b"more").decode()


def forged(header, metadata, data):
    """A bundle from parts that may contradict each other, with a digest as right as it can be made."""
    texts = dict(metadata)
    for key, written in (("layers", lambda value: deflated(json.dumps(value).encode())), ("about", json.dumps)):
        texts[key] = metadata[key] if isinstance(metadata[key], str) else written(metadata[key])
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


def tensor(header, name, **changed):
    return header | {name: header[name] | changed}


def listed(metadata, name, *changed):
    return metadata | {"layers": [[name, *changed] if layer[0] == name else layer for layer in metadata["layers"]]}


def test_a_list_of_layers_may_be_as_long_as_allowed(path, whole):
    header, metadata, data = taken_apart(whole)
    path.write_bytes(
        forged(header, metadata | {"layers": deflated(json.dumps(metadata["layers"]).encode().ljust(2**20))}, data)
    )
    assert list(read_bundle(path).params) == ["0.bias", "0.weight", "1.bias", "1.weight"]


HELD = "with a shape or levels that its 54 bytes of data cannot hold"
FORGERIES = [
    (lambda h, m, d: (h, m | {"format": "other"}, d), "is not of the format idiolect-bundle"),
    (lambda h, m, d: (h, m | {"version": "1"}, d), "has version '1', but this reader knows version '2'"),
    (lambda h, m, d: (h, m | {"more": "text"}, d), "must have the texts about, digest"),
    (lambda h, m, d: (h, m | {"about": [1]}, d), "no JSON table in its metadata under 'about'"),
    (lambda h, m, d: (h, m, d + b"\0"), "bytes of data, but its tensors fill"),
    (lambda h, m, d: (h | {"x": h["planes"]}, m, d), "has a tensor 'x', but can have only planes, levels, full"),
    (lambda h, m, d: (h | {"full": 3}, m, d), "describes tensor 'full' by something else"),
    (lambda h, m, d: (tensor(h, "planes", dtype="F32"), m, d), "has tensor 'planes' of a type other than U8"),
    (lambda h, m, d: (tensor(h, "full", dtype="U8"), m, d), "has tensor 'full' of a type other than F32"),
    (lambda h, m, d: (tensor(h, "planes", dtype=["U8"]), m, d), "of a type other than U8"),
    (lambda h, m, d: (tensor(h, "planes", data_offsets=[0, 10**18]), m, d), "outside of its 54 bytes"),
    (lambda h, m, d: (tensor(h, "planes", data_offsets=[-1, 1]), m, d), "outside of its 54 bytes"),
    (lambda h, m, d: (tensor(h, "planes", shape=[10**12, 10**12, 0]), m, d), "a shape that does not fit"),
    (lambda h, m, d: (tensor(h, "planes", shape=[2, 1]), m, d), "a shape that does not fit its 2 bytes"),
    (lambda h, m, d: (tensor(h, "planes", shape=[True]), m, d), "a shape that does not fit"),
    (lambda h, m, d: (tensor(h, "planes", shape=[0], data_offsets=[0, 0]), m, d), "does not fit its 0 bytes"),
    (lambda h, m, d: (tensor(h, "planes", data_offsets=[0, 2]), m, d), "overlap or leave a gap"),
    (lambda h, m, d: ({k: v for k, v in h.items() if k != "levels"}, m, d), "overlap or leave a gap"),
    (lambda h, m, d: ({k: v for k, v in h.items() if k != "planes"}, m, d[:-2]), "has less in 'planes' than layer"),
    (lambda h, m, d: ({}, m, b""), "with a shape or levels that its 0 bytes of data cannot hold"),
    (lambda h, m, d: (h, m | {"layers": "%"}, d), "a list of layers that is not zlib in base64"),
    (lambda h, m, d: (h, m | {"layers": "\u00fc" * 4}, d), "a list of layers that is not zlib in base64"),
    (lambda h, m, d: (h, m | {"layers": "AAAA"}, d), "a list of layers that is not zlib in base64"),
    (lambda h, m, d: (h, m | {"layers": ""}, d), "a list of layers that is cut off"),
    (lambda h, m, d: (h, m | {"layers": deflated(b"[]")[:12]}, d), "a list of layers that is cut off"),
    (
        lambda h, m, d: (h, m | {"layers": deflated(b"[" + b" " * 2**20 + b"]")}, d),
        "of layers of more than 1048576 bytes",
    ),
    (lambda h, m, d: (h, m | {"layers": deflated(b"[" * 10**6)}, d), "no JSON list of layers"),
    (lambda h, m, d: (h, m | {"layers": deflated(b"\xff\xfe\xfd")}, d), "no JSON list of layers"),
    (lambda h, m, d: (h, m | {"layers": {}}, d), "no JSON list of layers"),
    (lambda h, m, d: (h, m | {"layers": [{"x": 1}]}, d), "lists a layer by something else"),
    (lambda h, m, d: (h, m | {"layers": [["x"]]}, d), "lists a layer by something else"),
    (lambda h, m, d: (h, m | {"layers": [[["x"], [1]]]}, d), "lists a layer by something else"),
    (lambda h, m, d: (h, m | {"layers": m["layers"] + m["layers"][:1]}, d), "lists layer '0.bias' twice"),
    (lambda h, m, d: (h, m | {"layers": m["layers"][:-1]}, d), "has 3 numbers in 'levels', but its layers need 0"),
    (lambda h, m, d: (h, m | {"layers": m["layers"][1:]}, d), "has 10 numbers in 'full', but its layers need 8"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], 4), d), "less in 'levels' than layer '1.weight' needs"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], 2), d), "has 3 numbers in 'levels', but its layers need 2"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2]), d), "less in 'full' than layer '1.weight' needs"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], 10**9), d), HELD),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], 0), d), HELD),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], None), d), "less in 'full' than layer '1.weight' needs"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 2], True), d), HELD),
    (lambda h, m, d: (h, listed(m, "1.weight", [2, 9], 3), d), "less in 'planes' than layer '1.weight' needs"),
    (lambda h, m, d: (h, listed(m, "1.weight", [2**70], 3), d), HELD),
    (lambda h, m, d: (h, listed(m, "1.weight", [0, 2**62, 2**62], 3), d), HELD),
    (lambda h, m, d: (h, listed(m, "1.weight", "22", 3), d), HELD),
    (lambda h, m, d: (h, listed(m, "0.bias", [3]), d), "less in 'full' than layer '1.bias' needs"),
    (lambda h, m, d: (h, m, overwritten(d, h["levels"], b"\xff")), "levels for layer '1.weight' that are not finite"),
    (lambda h, m, d: (h, m, overwritten(d, h["planes"], b"\xff")), "a weight in layer '1.weight' beyond its 3 levels"),
]


def overwritten(data, entry, byte):
    start, end = entry["data_offsets"]
    return data[:start] + byte * (end - start) + data[end:]


@pytest.mark.parametrize(("forge", "said"), FORGERIES)
def test_a_forgery_with_the_right_digest_is_refused_with_a_sentence(path, whole, forge, said):
    assert said in refused(path, forged(*forge(*taken_apart(whole))))


def test_a_list_of_layers_that_would_inflate_to_gigabytes_takes_no_memory(path, whole):
    header, metadata, data = taken_apart(whole)
    bomb = forged(header, metadata | {"layers": deflated(b" " * 2**26)}, data)
    tracemalloc.start()
    try:
        assert "a list of layers of more than 1048576 bytes" in refused(path, bomb)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


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
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["U8", "F32", "", "0.bias"])
    | st.just(2**64),
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
