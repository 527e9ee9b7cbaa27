"""All benchmarks, as records: what each measures, what it needs, and its sizes.

`short` and `full` are the options of its script; `planned` is how many seconds the short size should take on two quiet
cores, at most; all of them together have twelve minutes.
"""

from typing import NamedTuple

PLAN = 12 * 60
SERVED = ("--algorithms", "fedasync", "local")  # nothing is kept for a client, and a model


class Benchmark(NamedTuple):
    """A script beside this file that takes `--json FILE`."""

    name: str
    measures: str
    planned: int
    short: tuple[str, ...]
    full: tuple[str, ...]
    needs: tuple[str, ...] = ()  # packages
    environment: str = "main"  # or `torch`: which Python
    install: str = ""  # how to get what it needs
    rivals: bool = False  # whether it asks the Python that has Flower and pfl

    @property
    def script(self) -> str:
        """Its file."""
        return f"{self.name}.py"

    def options(self, size: str) -> tuple[str, ...]:
        """Of its short or its full size."""
        return self.full if size == "full" else self.short


BENCHMARKS = (
    Benchmark(
        "yardsticks",
        "what the machine can do at most: a matrix product, a copy",
        10,
        ("--repeats", "3"),
        ("--repeats", "9"),
    ),
    Benchmark(
        "starting",
        "the demo from the command to the table, and what its time goes to",
        60,
        ("--repeats", "1", "--seeds", "0"),
        ("--repeats", "5"),
    ),
    Benchmark(
        "client_update",
        "a client update through the engine, beside PyTorch's loop",
        140,
        ("--repeats", "3", "--seconds", "0.3", "--objectives", "plain", "exact MAML", "Moreau, 5 steps"),
        ("--repeats", "9", "--seconds", "1.5"),
        ("torch",),
        install="pip install torch",
    ),
    Benchmark(
        "fedavg_rounds",
        "rounds of FedAvg, beside PyTorch's loop, Flower's simulation and pfl",
        60,
        ("--repeats", "3", "--rounds", "3"),
        ("--repeats", "15", "--rounds", "10"),
        rivals=True,
    ),
    Benchmark(
        "engine_cost",
        "what the engine adds to bare arithmetic",
        60,
        ("--repeats", "3", "--part", "6", "--models", "mlp", "--objectives", "plain", "exact MAML", "--widths", "8"),
        ("--repeats", "9"),
    ),
    Benchmark(
        "convolutions",
        "where the time of the CNN's update goes, and what else was tried",
        30,
        ("--repeats", "3", "--updates", "4", "--ways", "4"),
        ("--repeats", "7", "--updates", "20"),
    ),
    Benchmark(
        "serverless",
        "agents without a server, beside NumPy's loop and a copy of what a round moves",
        80,
        ("--repeats", "3", "--steps", "0", "5", "--rounds", "60", "--no-batch"),
        ("--repeats", "5", "--rounds", "1000"),
    ),
    Benchmark(
        "scale",
        "time and memory against the number of clients",
        45,
        ("--from", "1000", "--up-to", "10000", "--until", "4", *SERVED, "--turns", "1000000"),
        ("--from", "1000", "--until", "3", *SERVED, "--turns", "10000000"),
    ),
    Benchmark(
        "policies",
        "policies on a grid, beside the same loop in PyTorch",
        60,
        ("--rounds", "2", "--rivals", "together"),
        ("--rounds", "5"),
        ("torch",),
        install="pip install torch",
    ),
    Benchmark(
        "ray_cost",
        "what Ray's actors add to an update",
        60,
        ("--repeats", "3", "--cases", "3"),
        ("--repeats", "9"),
        ("ray",),
        install="pip install -e '.[ray]'",
    ),
    Benchmark(
        "small_models",
        "compressed models where they run",
        15,
        ("--repeats", "3", "--models", "ResNet-20", "--bits", "2"),
        ("--repeats", "5"),
        ("onnx", "onnxruntime"),
        install="pip install -e '.[onnx]'",
    ),
    Benchmark(
        "torch_bridges",
        "PyTorch modules by both bridges, beside PyTorch's loop",
        25,
        ("--repeats", "3", "--models", "mlp", "--sides", "call", "trace", "--seconds", "0.3"),
        ("--repeats", "9"),
        ("torch", "torchax", "transformers", "peft"),
        environment="torch",
        install="make .venv-torch/.test",
    ),
    Benchmark(
        "serving",
        "what one server holds",
        20,
        ("--repeats", "2", "--seconds", "2", "--clients", "100", "--model", "5 kB"),
        ("--repeats", "3", "--seconds", "20"),
        ("zenoh",),
        install="pip install -e '.[zenoh]'",
    ),
)
