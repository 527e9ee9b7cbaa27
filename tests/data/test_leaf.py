"""FEMNIST and Shakespeare from files as LEAF's scripts write them."""

import json
import string

import numpy as np
import pytest

from idiolect import UserMistake, data
from idiolect.data.leaf_problems import LETTERS
from idiolect.problems.data import by_classes
from idiolect.problems.models import linear


def write(path, users):
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = [len(held["x"]) for held in users.values()]
    path.write_text(json.dumps({"users": list(users), "num_samples": sizes, "user_data": users}))


def characters(seed, count):
    rng = np.random.default_rng(seed)
    return {"x": rng.random((count, 784)).round(4).tolist(), "y": rng.integers(0, 62, count).tolist()}


def test_femnist_has_a_client_for_each_writer_with_training_and_test_samples_pooled(tmp_path):
    writers = {f"f{k:04}_00": characters(k, 12) for k in range(3)}
    train = {user: {part: held[part][:9] for part in "xy"} for user, held in writers.items()}
    test = {user: {part: held[part][9:] for part in "xy"} for user, held in writers.items()}
    write(tmp_path / "data" / "train" / "all_data_0_niid_05_keep_0_train_9.json", train)
    write(tmp_path / "data" / "test" / "all_data_0_niid_05_keep_0_test_9.json", test)
    made = data.femnist(tmp_path, model=linear)
    assert made.clients.names == tuple(writers)
    rows = made.clients.train.rows
    for client, held in enumerate(writers.values()):
        mine = np.asarray(rows["image"])[12 * client : 12 * client + 12].reshape(12, -1)
        order, expected = np.argsort(mine[:, 0]), np.argsort(np.array(held["x"])[:, 0])
        np.testing.assert_allclose(mine[order], np.array(held["x"])[expected], rtol=1e-6)
        assert np.asarray(rows["label"])[12 * client : 12 * client + 12][order].tolist() == list(
            np.array(held["y"])[expected]
        )
    dealt = data.femnist(tmp_path, by="nobody", clients=4, partition=lambda: by_classes(classes=2), model=linear)
    assert dealt.clients.total == 4
    assert dealt.clients.names == ()
    even = data.femnist(tmp_path, model=linear, normalize="train")
    mean, deviation = even.scaling["image"]
    np.testing.assert_allclose(
        np.asarray(even.clients.train.rows["image"]) * deviation[0] + mean[0], rows["image"], atol=1e-6
    )


def samples(text, length=80):
    """As LEAF cuts a role's text: `length` characters, and the one after them."""
    places = range(len(text) - length)
    return {"x": [text[k : k + length] for k in places], "y": [text[k + length] for k in places]}


def text_of(tokens, mask):
    shown = np.append(True, mask)
    return "".join(LETTERS[token - 1] for token in np.asarray(tokens)[shown])


def test_a_role_s_text_is_put_together_and_cut_into_windows_that_share_no_character(tmp_path):
    rng = np.random.default_rng(0)
    letters = string.ascii_letters + " .\n"
    texts = {f"PLAY_{role}": "".join(rng.choice(list(letters), 400)) for role in ("ANNE", "BEN")}
    # LEAF leaves out the samples whose characters training and test would share.
    write(tmp_path / "train" / "t.json", {role: samples(text[:300]) for role, text in texts.items()})
    write(tmp_path / "test" / "t.json", {role: samples(text[300:]) for role, text in texts.items()})
    made = data.shakespeare(tmp_path, length=9)
    assert made.clients.names == tuple(texts)
    rows, start = made.clients.train.rows, 0
    for client, text in enumerate(texts.values()):
        size = sum(getattr(made.clients, part).sizes[client] for part in ("train", "adapt", "validation", "test"))
        windows = [text_of(rows["tokens"][k], rows["mask"][k]) for k in range(start, start + size)]
        expected = [text[k : k + 10] for k in range(0, 400, 10)]  # 300 and 100 characters, ten by ten
        assert sorted(windows) == sorted(expected)
        start += size


def test_samples_that_were_thinned_out_share_no_character_either(tmp_path):
    text = "".join(np.random.default_rng(1).choice(list(string.ascii_letters), 300))
    whole = samples(text)
    write(tmp_path / "t.json", {"ANNE": {part: whole[part][::7] for part in "xy"}})
    made = data.shakespeare(tmp_path / "t.json", length=9)
    rows = made.clients.train.rows
    windows = [text_of(tokens, mask) for tokens, mask in zip(rows["tokens"], rows["mask"], strict=True)]
    last = whole["y"][::7][-1], len(range(0, 220, 7))
    assert "".join(sorted("".join(windows))) == "".join(sorted(text[: 7 * (last[1] - 1) + 81]))


MISTAKES = {
    "users": ("femnist", '{"num_samples": [1]}', "is none of LEAF's"),
    "json": ("femnist", "{", "is not JSON that can be read"),
    "list": ("femnist", "[1]", "is none of LEAF's"),
    "pairs": ("femnist", {"a": {"x": [[0.0] * 784] * 3, "y": [1, 2]}}, "as many x as y for user 'a'"),
    "size": ("femnist", {"a": {"x": [[0.0] * 9] * 3, "y": [1, 2, 3]}}, "row 0 of .* has 9 numbers in x"),
    "class": ("femnist", {"a": {"x": [[0.0] * 784] * 3, "y": [1, 62, 3]}}, r"y is 62 in row 1 of .*\(client 'a'\)"),
    "number": ("femnist", {"a": {"x": [[0.0] * 784, ["b"] * 784], "y": [1, 2]}}, r"column 'x' is .* in row 1 of"),
    "few": ("femnist", {"a": {"x": [[0.0] * 784] * 2, "y": [1, 2]}}, "client 'a' has 2 images"),
    "answer": ("shakespeare", {"A": {"x": ["ab"] * 3, "y": ["c", "de", "f"]}}, r"row 1 of .*\(client 'A'\) has 'de'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_files_that_are_not_leaf_s_are_one_sentence(name, tmp_path):
    which, content, said = MISTAKES[name]
    if isinstance(content, str):
        (tmp_path / "a.json").write_text(content)
    else:
        write(tmp_path / "a.json", content)
    with pytest.raises(UserMistake, match=said):
        getattr(data, which)(tmp_path / "a.json")


def test_a_folder_without_files_is_one_sentence(tmp_path):
    with pytest.raises(UserMistake, match="has no JSON files of LEAF"):
        data.femnist(tmp_path)
