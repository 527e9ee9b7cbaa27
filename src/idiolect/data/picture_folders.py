"""A folder of classes, with a picture in each file; or a folder of clients, with a folder of classes for each."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Lt

from idiolect.contracts import Problem
from idiolect.data.cells import in_order
from idiolect.data.columns import Columns, Part, as_objects, listed
from idiolect.data.ownership import LEAST, Ownership
from idiolect.data.picture_files import fitted, read_picture
from idiolect.data.picture_problem import picture_problem
from idiolect.errors import UserMistake
from idiolect.options import OneOf
from idiolect.problems.data.client_splits import Shares
from idiolect.problems.data.datasets import Images
from idiolect.problems.data.input_scaling import Normalize
from idiolect.problems.data.partitions import Deal, iid
from idiolect.problems.images import Augmentation, MakeModel
from idiolect.problems.models.networks import cnn

_CLIENT = "client"


class _Found(NamedTuple):
    """A picture's file, its class, and its client where folders say so."""

    path: Path
    kind: str
    client: str


def images(
    source: Path | str,
    *,
    by: Literal["folder"] | None = None,
    classes: Sequence[str] | None = None,
    size: tuple[Annotated[int, Ge(1)], Annotated[int, Ge(1)]] | None = None,
    channels: Literal[1, 3] | None = None,
    clients: Annotated[int, Ge(1)] | None = None,
    smallest: Annotated[int, Ge(LEAST)] | None = None,
    partition: Annotated[Callable[[], Deal], OneOf("partitions")] = iid,
    model: Annotated[MakeModel, OneOf("models")] = cnn,
    augmentation: Augmentation | None = None,
    normalize: Normalize | None = None,
    unseen: Annotated[float, Ge(0), Lt(1)] = 0.0,
    shares: Shares = Shares(),
    name: str = "images",
    seed: int = 0,
) -> Problem:
    """Pictures in folders that are called by their classes, dealt by a partition, or in folders of clients first.

    Args:
        source: The folder: `class/picture`, or `client/class/picture` with `by = "folder"`. Pictures are PGM, PPM or
            NPY, and what Pillow reads if it is there.
        by: `folder`, if the outer folders are clients. Without it a partition deals the pictures.
        classes: All classes, in order; by default the names of the folders.
        size: Height and width to which pictures are brought (by Pillow); without it all must be alike.
        channels: 1 for grey, 3 for colours; without it all must be alike.
        clients: How many a partition makes; with `by`, how many of those there are take part in the experiment.
        smallest: Clients with fewer pictures are left out; without it, a client with fewer than 3 is refused.
        partition: Who gets which picture where there is no `by`.
        model: Makes the model from the shape of a picture and the number of classes.
        augmentation: With `crop_flip`, pictures are shifted and mirrored at random wherever a loss is taken.
        normalize: Bring each channel to mean 0 and deviation 1, by those of training parts (`train`) or by numbers.
        unseen: The share of clients that take no part in training.
        shares: How much of a client's data goes to training, adaptation and validation; the rest is for tests.
        name: What the problem is called.
        seed: Of the order of pictures, the deal, and of who is unseen.

    Returns:
        The problem, with the cross-entropy loss and the accuracy.

    Example:
        >>> import numpy as np
        >>> from idiolect.data import images
        >>> from idiolect.problems.models import linear
        >>> for k in range(20):
        ...     folder = tmp / "pets" / ("cat", "dog")[k % 2]
        ...     folder.mkdir(parents=True, exist_ok=True)
        ...     np.save(folder / f"{k}.npy", np.full((12, 12), k, np.uint8))
        >>> made = images(tmp / "pets", clients=4, model=linear)
        >>> made.clients.total, made.clients.train.rows["image"].shape
        (4, (20, 12, 12, 1))
    """
    folder = Path(source)
    found = _walk(folder, by is not None)
    known = in_order(one.kind for one in found) if classes is None else list(classes)
    number = {kind: place for place, kind in enumerate(known)}
    for one in found:
        if one.kind not in number:
            whose = f" (client '{one.client}')" if one.client else ""
            raise UserMistake(f"{one.path}{whose} is of class '{one.kind}', but classes has {listed(known)}")
    if len(known) < 2:
        raise UserMistake(f"{folder} has one class only, {listed(known)}, so there is nothing to learn")
    pixels = _alike([fitted(read_picture(one.path), one.path, size, channels) for one in found], found)
    pictures = Images(pixels, np.array([number[one.kind] for one in found], np.int32))
    part = Part(str(folder), len(found), names=[str(one.path) for one in found])
    columns = Columns({_CLIENT: as_objects([one.client for one in found])}, (part,))
    how = Ownership(None if by is None else _CLIENT, clients, smallest, partition)
    made, note = model(pixels.shape[1:], len(known)), f"{len(known)} classes: {listed(known)}"
    return picture_problem(
        name,
        pictures,
        columns,
        how,
        made,
        unseen=unseen,
        shares=shares,
        augmentation=augmentation,
        normalize=normalize,
        notes=(note,),
        seed=seed,
    )


def _walk(folder: Path, by_client: bool) -> list[_Found]:
    """Every picture of the folder, in the order of names; what begins with a dot is not looked at."""
    if not folder.is_dir():
        raise UserMistake(f"{folder} is no folder, but must have one for each class")
    clients = _inner(folder) if by_client else [folder]
    found = [
        _Found(path, kind.name, client.name if by_client else "")
        for client in clients
        for kind in _inner(client)
        for path in sorted(kind.iterdir())
        if not path.name.startswith(".")
    ]
    for one in found:
        if one.path.is_dir():
            layout = (
                "client/class/picture" if by_client else "class/picture; say by = 'folder' for client/class/picture"
            )
            raise UserMistake(f"{one.path} is a folder, but should be a picture: pictures lie in {layout}")
    if not found:
        raise UserMistake(f"{folder} has no pictures in folders that are called by their classes")
    return found


def _inner(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _alike(pictures: Sequence[np.ndarray], found: Sequence[_Found]) -> np.ndarray:
    first = pictures[0]
    for picture, one in zip(pictures, found, strict=True):
        if picture.shape != first.shape:
            raise UserMistake(
                f"image {one.path} has shape {picture.shape} (height, width, channels), but {found[0].path} has "
                f"{first.shape}; say size = [{first.shape[0]}, {first.shape[1]}] or channels = {first.shape[2]}"
            )
    if all(picture.dtype == np.uint8 for picture in pictures):
        return np.stack(pictures)
    return np.stack([one / np.float32(255) if one.dtype == np.uint8 else one for one in pictures])
