"""Where the time of the CNN's update goes, and what else was tried for its convolutions.

Ten plain steps of gradient descent on batches that are ready, compiled and run over the workers as clients are. *Ways*
compute the same convolutions and pooling by other means. *Parts* are what the package's own way consists of, each
alone on arrays of the same shapes: patches, products, pooling, with their derivatives where the update needs them.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from cases import BATCH, LOCAL_STEPS, STEP_SIZE, flops, image_set
from figures import Found, Pace, Row, Table, asked, interleaved, once, ratio, times, write
from idiolect.contracts import Params, Scalar
from idiolect.engines import Workers
from idiolect.engines.workers import compile_for_clients
from idiolect.problems.models.convolution import _blocks, _first_max, convolve_and_pool
from tasks import network

Layer = Callable[[jax.Array, jax.Array], jax.Array]  # (images, kernels) -> pooled; images have the batch last
POOL = 2
OWN = "one product for a pooling window"


def pooled(values: jax.Array) -> jax.Array:
    """Maxima over 2 x 2 windows of (filters, rows, columns, batch)."""
    filters, rows, columns, batch = values.shape
    cut = values.reshape(filters, rows // POOL, POOL, columns // POOL, POOL, batch)
    return _first_max(
        cut.transpose(2, 4, 0, 1, 3, 5).reshape(POOL * POOL, filters, rows // POOL, columns // POOL, batch)
    )


def by_positions(images: jax.Array, kernels: jax.Array) -> jax.Array:
    """One column for each position: no arithmetic in vain, 2.8 times the patches."""
    filters, side, _, _ = kernels.shape
    _, height, width, batch = images.shape
    rows, columns = height - side + 1, width - side + 1
    product = kernels.reshape(filters, -1) @ _blocks(images, rows, columns, side, side, 1)
    return pooled(product.reshape(filters, rows, columns, batch))


def by_pairs(images: jax.Array, kernels: jax.Array) -> jax.Array:
    """One column for two neighbours in a row: 1.2 times the arithmetic, 1.7 times the patches."""
    filters, side, _, _ = kernels.shape
    channels, height, width, batch = images.shape
    rows, columns, blocks = height - side + 1, (width - side + 1) // POOL, -(-(side + POOL - 1) // POOL)
    room = blocks * POOL - side
    shifted = [jnp.pad(kernels, ((0, 0), (0, 0), (j, room - j), (0, 0))) for j in range(POOL)]
    cut = images.reshape(channels, height, width // POOL, POOL, batch).transpose(3, 0, 1, 2, 4)
    windows = [jnp.stack([cut[:, :, i : i + rows, j : j + columns] for j in range(blocks)]) for i in range(side)]
    patches = jnp.stack(windows).reshape(side * blocks * POOL * channels, rows * columns * batch)
    product = jnp.stack(shifted).reshape(POOL * filters, -1) @ patches
    cut = product.reshape(POOL, filters, rows // POOL, POOL, columns, batch).transpose(3, 0, 1, 2, 4, 5)
    return _first_max(cut.reshape(POOL * POOL, filters, rows // POOL, columns, batch))


def in_half_the_bits(images: jax.Array, kernels: jax.Array) -> jax.Array:
    """The package's own way, with patches and kernels in bfloat16 and sums in float32."""
    filters, side, _, _ = kernels.shape
    _, height, width, batch = images.shape
    rows, columns, blocks = (height - side + 1) // POOL, (width - side + 1) // POOL, -(-(side + POOL - 1) // POOL)
    room = blocks * POOL - side
    shifted = [
        jnp.pad(kernels, ((0, 0), (i, room - i), (j, room - j), (0, 0))) for i in range(POOL) for j in range(POOL)
    ]
    matrix = jnp.stack(shifted).reshape(POOL * POOL * filters, -1).astype(jnp.bfloat16)
    patches = _blocks(images.astype(jnp.bfloat16), rows, columns, blocks, blocks, POOL)
    product = jnp.matmul(matrix, patches, preferred_element_type=jnp.float32)
    return _first_max(product.reshape(POOL * POOL, filters, rows, columns, batch))


def by_xla(images: jax.Array, kernels: jax.Array) -> jax.Array:
    """XLA's own convolution."""
    found = jax.lax.conv_general_dilated(images, kernels, (1, 1), "VALID", dimension_numbers=("CHWN", "OHWI", "CHWN"))
    return pooled(found)


def loss(layer: Layer, params: Params, images: jax.Array, labels: jax.Array) -> Scalar:
    """The cross-entropy of the benchmark's CNN, with convolutions by this layer."""
    x = jnp.moveaxis(images, (0, 3), (3, 0))
    for kernels in params["convolutions"]:
        x = jax.nn.relu(layer(x, kernels["weight"]) + kernels["bias"][:, None, None, None])
    x = x.reshape(-1, x.shape[-1]).T
    first, last = params["dense"]
    logits = jax.nn.relu(x @ first["weight"] + first["bias"]) @ last["weight"] + last["bias"]
    return optax.losses.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def step(layer: Layer, params: Params, batch: tuple[jax.Array, jax.Array]) -> Params:
    """One local step."""
    slopes = jax.grad(partial(loss, layer))(params, *batch)
    return jax.tree.map(lambda value, slope: value - STEP_SIZE * slope, params, slopes)


def in_a_loop(layer: Layer, unroll: int = 1) -> Callable[..., Params]:
    """All steps as one program."""

    def update(params: Params, images: jax.Array, labels: jax.Array) -> Params:
        body = lambda params, batch: (step(layer, params, batch), None)  # noqa: E731
        return jax.lax.scan(body, params, (images, labels), unroll=unroll)[0]

    return compile_for_clients(update)


def from_the_host(layer: Layer) -> Callable[..., Params]:
    """A program for each step, called from Python."""
    one = compile_for_clients(partial(step, layer))

    def update(params: Params, images: jax.Array, labels: jax.Array) -> Params:
        for k in range(len(labels)):
            params = one(params, (images[k], labels[k]))
        return params

    return update


WAYS: dict[str, Callable[[], Callable[..., Params]]] = {
    OWN: lambda: in_a_loop(convolve_and_pool),
    "the same, steps written out": lambda: in_a_loop(convolve_and_pool, LOCAL_STEPS),
    "the same, a call for each step": lambda: from_the_host(convolve_and_pool),
    "the same, patches in bfloat16": lambda: in_a_loop(in_half_the_bits),
    "one product for two neighbours": lambda: in_a_loop(by_pairs),
    "one product for a position": lambda: in_a_loop(by_positions),
    "XLA's convolution, in a loop": lambda: in_a_loop(by_xla),
    "XLA's convolution, steps written out": lambda: in_a_loop(by_xla, LOCAL_STEPS),
    "XLA's convolution, a call for each step": lambda: from_the_host(by_xla),
}


def data() -> tuple[jax.Array, jax.Array]:
    """Ten batches of pixels between 0 and 1, and labels."""
    size = BATCH["cnn"]
    pixels, labels = image_set(LOCAL_STEPS * size)
    shaped = pixels.reshape(LOCAL_STEPS, size, 28, 28, 1).astype("float32") / 255
    return jnp.asarray(shaped), jnp.asarray(labels.reshape(LOCAL_STEPS, size))


def repeated(part: Callable[..., jax.Array], *shapes: tuple[int, ...]) -> Callable[..., jax.Array]:
    """A part of a step, ten times over in one program, on arrays that the compiler cannot know."""

    def whole(*arrays: jax.Array) -> jax.Array:
        def once_more(last: jax.Array, _: None) -> tuple[jax.Array, None]:
            # What came out decides, by nothing that can be seen, what goes in: no turn of the loop can be left out.
            return part(arrays[0] + 1e-30 * last.ravel()[0], *arrays[1:]), None

        first = jnp.zeros(jax.eval_shape(part, *arrays).shape)
        return jax.lax.scan(once_more, first, length=LOCAL_STEPS)[0]

    compiled = compile_for_clients(whole)
    given = [jax.random.normal(jax.random.key(k), shape) for k, shape in enumerate(shapes)]
    return lambda: compiled(*given)


def parts() -> dict[str, Callable[[], jax.Array]]:
    """What the package's way consists of, for both convolutions; derivatives as often as the update takes them."""
    batch = BATCH["cnn"]

    def back(part: Callable[[jax.Array], jax.Array], images: jax.Array, slopes: jax.Array) -> jax.Array:
        return jax.vjp(part, images)[1](slopes)[0]

    first, second = (1, 28, 28, batch), (16, 12, 12, batch)
    cut_first = partial(_blocks, rows=12, columns=12, down=3, across=3, pool=POOL)
    cut_second = partial(_blocks, rows=4, columns=4, down=3, across=3, pool=POOL)
    one, two = (36, 144 * batch), (36 * 16, 16 * batch)  # patches
    above, below = (4, 16, 12, 12, batch), (4, 32, 4, 4, batch)  # what is pooled
    dot = lambda a, b: a @ b  # noqa: E731
    return {
        "patches of the first layer": repeated(cut_first, first),
        "patches of the second, and back": _both(
            repeated(cut_second, second), repeated(partial(back, cut_second), second, two)
        ),
        "products of the first layer": _both(
            repeated(dot, (64, 36), one), repeated(lambda a, b: a @ b.T, (64, one[1]), one)
        ),
        "products of the second": _both(
            repeated(dot, (128, two[0]), two),
            repeated(lambda a, b: a @ b.T, (128, two[1]), two),
            repeated(lambda a, b: a.T @ b, (128, two[0]), (128, two[1])),
        ),
        "pooling, and back": _both(
            repeated(partial(back, _first_max), above, above[1:]), repeated(partial(back, _first_max), below, below[1:])
        ),
    }


def _both(*runs: Callable[[], jax.Array]) -> Callable[[], jax.Array]:
    def run() -> jax.Array:
        return [each() for each in runs][-1]

    return run


def timed(run: Callable[[], object], workers: Workers, updates: int) -> Callable[[], float]:
    """Seconds per update over all workers."""

    def measure() -> float:
        began = time.perf_counter()
        for future in [workers.submit(run) for _ in range(updates)]:
            future.result()
        return (time.perf_counter() - began) / updates

    return measure


def compare_ways(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """Every way, in turn, after a check that all compute the same model but for rounding."""
    images, labels = data()
    params = network("cnn").init(jax.random.key(0))
    updates = {name: way() for name, way in list(WAYS.items())[: options.ways]}
    wanted = updates[OWN](params, images, labels)
    rows, sides = [], {}
    for name, update in updates.items():
        apart = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), update(params, images, labels), wanted)
        assert max(jax.tree.leaves(apart)) < (0.02 if "bfloat16" in name else 1e-4), (
            f"{name} computes something else: {apart}"
        )
        sides[name] = timed(partial(update, params, images, labels), workers, options.updates)
    found = {name: times(seconds) for name, seconds in interleaved(sides, options.repeats, pace).items()}
    for name, figure in found.items():
        rows.append(Row(name, {"time": figure, "ratio": ratio(figure, found[OWN])}))
        print(f"  {name:42} {figure!s:>20} ms   {rows[-1].figures['ratio']} times", flush=True)
    return rows


def compare_parts(workers: Workers, options: argparse.Namespace, pace: Pace) -> list[Row]:
    """Every part alone, as a share of the whole."""
    images, labels = data()
    params, update = network("cnn").init(jax.random.key(0)), WAYS[OWN]()
    sides = {"the whole update": timed(partial(update, params, images, labels), workers, options.updates)}
    sides |= {name: timed(run, workers, options.updates) for name, run in parts().items()}
    found = {name: times(seconds) for name, seconds in interleaved(sides, options.repeats, pace).items()}
    rows = []
    for name, figure in found.items():
        rows.append(Row(name, {"time": figure, "share": ratio(figure, found["the whole update"])}))
        print(f"  {name:42} {figure!s:>20} ms   {rows[-1].figures['share'].median:.0%}", flush=True)
    counted = flops("cnn", "plain") / 1e9
    rows[0].figures["counted"] = once(counted, "GFLOP")
    return rows


def main() -> None:
    """Print the tables."""
    parser = asked(__doc__, 5)
    parser.add_argument("--updates", type=int, default=40, help="updates in a repeat")
    parser.add_argument("--ways", type=int, default=len(WAYS), help="how many of them, in their order")
    options = parser.parse_args()
    pace = Pace(2 * options.repeats)
    with Workers() as workers:
        print("Ten steps of the CNN, milliseconds per update:")
        ways = compare_ways(workers, options, pace)
        print("What the first of these consists of, each part alone:")
        inside = compare_parts(workers, options, pace)
    tables = {
        "ways": Table("Ten steps of the CNN by other means", ways),
        "parts": Table("Parts of the CNN's update, each alone", inside),
    }
    write(options.json, Found(tables))


if __name__ == "__main__":
    main()
