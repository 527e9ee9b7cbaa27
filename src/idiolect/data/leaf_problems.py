"""FEMNIST and Shakespeare as LEAF has them: a client is a writer of characters, or a role in a play."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Lt

from idiolect.contracts import Problem
from idiolect.data.cells import numbers
from idiolect.data.columns import Columns, Part
from idiolect.data.leaf_files import USER, X, Y, read_leaf
from idiolect.data.ownership import LEAST, Ownership, by_owner, dealt, teller
from idiolect.data.picture_problem import picture_problem
from idiolect.data.text_problem import token_problem
from idiolect.data.token_rows import as_characters, cut
from idiolect.errors import UserMistake
from idiolect.options import OneOf
from idiolect.problems.data.client_splits import Shares
from idiolect.problems.data.datasets import Images
from idiolect.problems.data.input_scaling import Normalize
from idiolect.problems.data.partitions import Deal, iid
from idiolect.problems.images import MakeModel
from idiolect.problems.models.networks import cnn
from idiolect.problems.models.sequences import MakeTokenModel, gru

SIDE, CLASSES = 28, 62  # of FEMNIST: digits, capital and small letters
LETTERS = (
    "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"  # LEAF's, for Shakespeare
)
_OVERLAP = 10  # characters that a sample must share with the one before it to go on where that ended


def femnist(
    source: Path | str | Sequence[Path | str],
    *,
    by: Literal["writer", "nobody"] = "writer",
    clients: Annotated[int, Ge(1)] | None = None,
    smallest: Annotated[int, Ge(LEAST)] | None = None,
    partition: Annotated[Callable[[], Deal], OneOf("partitions")] = iid,
    model: Annotated[MakeModel, OneOf("models")] = cnn,
    normalize: Normalize | None = None,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    name: str = "femnist",
    seed: int = 0,
) -> Problem:
    """Handwritten characters of LEAF's FEMNIST, one client for each writer.

    Args:
        source: The folder that LEAF's scripts leave (with `train` and `test`), or its JSON files.
        by: A client for each writer; or for nobody, and a partition deals the images.
        clients: How many a partition makes; with writers, how many of them take part in the experiment.
        smallest: Writers with fewer images are left out; without it, one with fewer than 3 is refused.
        partition: Who gets which image where there are no writers.
        model: Makes the model from the shape of an image and the number of classes.
        normalize: Bring pixels to mean 0 and deviation 1, by those of training parts (`train`) or by numbers.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of images, the deal, and of who is unseen.

    Returns:
        The problem, with the cross-entropy loss and the accuracy.

    Example:
        >>> import json
        >>> from idiolect.data import femnist
        >>> data = {user: {"x": [[0.5] * 784] * 4, "y": [0, 1, 2, 61]} for user in ("f01", "f02")}
        >>> record = {"users": list(data), "num_samples": [4, 4], "user_data": data}
        >>> _ = (tmp / "all.json").write_text(json.dumps(record))
        >>> femnist(tmp / "all.json").clients.names
        ('f01', 'f02')
    """
    columns = read_leaf(source)
    told, held = teller(columns, USER), columns.values[Y]
    pixels = numbers(columns, X, X, told)
    if pixels.shape[1:] != (SIDE * SIDE,):
        raise UserMistake(f"{told(0)} has {pixels[0].size} numbers in x, but FEMNIST has images of {SIDE} x {SIDE}")
    for row, label in enumerate(held):
        if not isinstance(label, int) or not 0 <= label < CLASSES:
            raise UserMistake(f"y is {label!r} in {told(row)}, but FEMNIST has the classes 0 to {CLASSES - 1}")
    images = Images(pixels.reshape(-1, SIDE, SIDE, 1), np.array(held, np.int32))
    how = Ownership(USER if by == "writer" else None, clients, smallest, partition)
    made = model((SIDE, SIDE, 1), CLASSES)
    return picture_problem(
        name, images, columns, how, made, normalize=normalize, unseen=unseen, shares=shares, seed=seed
    )


def shakespeare(
    source: Path | str | Sequence[Path | str],
    *,
    by: Literal["role", "nobody"] = "role",
    length: Annotated[int, Ge(1)] = 80,
    clients: Annotated[int, Ge(1)] | None = None,
    smallest: Annotated[int, Ge(LEAST)] | None = None,
    partition: Annotated[Callable[[], Deal], OneOf("partitions")] = iid,
    model: Annotated[MakeTokenModel, OneOf("token_models")] = gru,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    name: str = "shakespeare",
    seed: int = 0,
) -> Problem:
    """Lines of LEAF's Shakespeare, one client for each role, and which character comes next.

    LEAF's samples are 80 characters and the one after them, each one character further than the last. Dealt to parts at
    random they would show in training what is scored, so that a role's text is put together again and cut into windows
    that share no character; every character of a window is predicted from those before it.

    Args:
        source: The folder that LEAF's scripts leave (with `train` and `test`), or its JSON files.
        by: A client for each role; or for nobody, and a partition deals the windows.
        length: Predictions in a window, at most.
        clients: How many a partition makes; with roles, how many of them take part in the experiment.
        smallest: Roles with fewer windows are left out; without it, one with fewer than 3 is refused.
        partition: Who gets which window where there are no roles.
        model: Makes the model from the number of characters and the length.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's windows goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of windows, the deal, and of who is unseen.

    Returns:
        The problem; loss and metrics are means over the predictions of a window and then over windows.

    Example:
        >>> import json
        >>> from idiolect.data import shakespeare
        >>> line = "To be, or not to be: that is the question. " * 4
        >>> data = {"HAMLET": {"x": [line[k : k + 80] for k in range(80)], "y": list(line[80:160])}}
        >>> _ = (tmp / "all.json").write_text(json.dumps({"users": ["HAMLET"], "user_data": data}))
        >>> shakespeare(tmp / "all.json", length=19).clients.train.rows["tokens"].shape
        (8, 20)
    """
    columns, rng = read_leaf(source), np.random.default_rng(seed)
    roles, texts = _passages(columns)
    found = as_characters(texts, LETTERS)
    windows = cut(found.rows, length)
    whole = Columns({USER: roles[windows.origin]}, (Part(columns.where, len(windows.origin)),))
    how = Ownership(USER if by == "role" else None, clients, smallest, partition)
    hands = dealt(whole, how, np.zeros(len(windows.origin), int), rng, "windows")
    note = f"{name}: {len(windows.tokens)} windows of at most {length} predictions, of {found.vocabulary} characters"
    made = model(found.vocabulary, length)
    return token_problem(name, windows, hands, made, shares=shares, unseen=unseen, rng=rng, notes=(note,))


def _passages(columns: Columns) -> tuple[np.ndarray, list[str]]:
    """The roles and the texts that their samples were cut from, put together again where samples go on."""
    told, texts, roles = teller(columns, USER), list[str](), list[str]()
    for hand, role in zip(*by_owner(columns, columns.values[USER], Ownership(smallest=LEAST))[:2], strict=True):
        before = len(texts)
        for row in hand:
            x, y = columns.values[X][row], columns.values[Y][row]
            if not isinstance(x, str) or not isinstance(y, str) or len(y) != 1:
                raise UserMistake(
                    f"{told(row)} has {str(y)[:20]!r} after {str(x)[:20]!r}, but must have a text and a character"
                )
            shared = _shared(texts[-1], x) if len(texts) > before else 0
            if shared:
                texts[-1] += x[shared:] + y
            else:
                texts.append(x + y)
                roles.append(role)
    return np.array(roles, object), texts


def _shared(text: str, sample: str) -> int:
    """How many characters of a sample end the text already; 0 if too few to be the same place."""
    for length in range(len(sample), _OVERLAP - 1, -1):
        if text.endswith(sample[:length]):
            return length
    return 0
