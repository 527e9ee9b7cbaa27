"""The README's Python example helps: after is below before, and below every client alone, on several seeds."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    return next(block for block in blocks if "every client alone" in block)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sharing_helps_in_the_first_example(seed, capsys):
    text = example()
    assert text.count("default_rng(0)") == 1
    exec(text.replace("default_rng(0)", f"default_rng({seed})"), {})
    before, after, alone = (float(line.rsplit(" ", 1)[1]) for line in capsys.readouterr().out.splitlines())
    assert after < alone / 2
    assert alone < before
    if seed == 0:
        promised = [float(number) for number in re.findall(r"0\.\d{3}", text.splitlines()[-1])]
        assert [before, after, alone] == pytest.approx(promised, abs=0.02)
