"""A recipe whose clients have different widths, and how the command line refuses, for tests of export and advice."""

from idiolect.cli import main

RECIPE = """
seeds = [0]
horizon = 5.0
[problem]
name = "digits"
clients = 4
samples = 400
model = { name = "mlp", hidden = [24, 16], activation = "relu" }
partition = { name = "by_classes", classes = 4 }
shares = { train = 0.5, adapt = 0.1, validation = 0.2 }
[network]
download = { law = "fixed", mean = 0.5 }
compute = { law = "fixed", mean = 0.0 }
upload = { law = "fixed", mean = 0.5 }
spread = 0.0
[training]
local_steps = 20
step_size = 1.0
batch_size = 10
[evaluation]
points = 2
steps = [0]
headline = "own"
groups = { few = [2], full = [3] }
[[algorithms]]
name = "qupel"
[algorithms.objective]
bits = { 3 = 2, 1 = 1, 32 = 1 }
keep = ["last", "vectors"]
lambda_p = 0.1
lambda = 0.01
step_size = 0.1
[[algorithms]]
name = "fedavg"
training = { step_size = 0.1 }
"""


def complaint(arguments, capsys):
    assert main([str(argument) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("idiolect: ")
    assert error.count("\n") == 1
    return error
