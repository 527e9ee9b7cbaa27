"""Write a recipe, and hear why it is refused."""

from pathlib import Path

import pytest

from idiolect.errors import UserMistake
from idiolect.experiments.recipe_files import load_recipe


def refusal(source: str, *settings: str) -> str:
    with pytest.raises(UserMistake) as mistake:
        load_recipe(source, list(settings))
    message = str(mistake.value)
    assert "\n" not in message
    return message


def written(tmp_path: Path, text: str, name: str = "some.toml") -> str:
    (tmp_path / name).write_text(text)
    return str(tmp_path / name)
