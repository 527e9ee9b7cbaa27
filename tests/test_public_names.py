"""What is public: what `__all__` reaches. Every such name has a docstring with an example that runs."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import idiolect

FOUND = ["idiolect", *(m.name for m in pkgutil.walk_packages(idiolect.__path__, "idiolect.") if m.ispkg)]
# Where PyTorch or Flower is not installed, the room that is made for it can be imported, but not all that is in it.
MADE_FOR = {"idiolect.torch": "torch", "idiolect.deploy.flower": "flwr"}
PACKAGES = [name for name in FOUND if name not in MADE_FOR or find_spec(MADE_FOR[name])]
EXTRAS = {  # what an example needs that a plain installation does not have
    "idiolect.torch.torch_problem": "torch",
    "idiolect.engines.ray.connection": "ray",
    "idiolect.problems.worlds.gymnasium_environments": "gymnasium",
    "idiolect.problems.worlds.poles": "gymnasium",
}


def public_functions() -> list[tuple[str, str]]:
    """(package, name) of every function of ours that a package's `__all__` reaches."""
    found = []
    for package in PACKAGES:
        if package.startswith(("idiolect.papers", "idiolect.testing")):
            continue
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if inspect.isfunction(value) and value.__module__.startswith("idiolect"):
                found.append((package, name))
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_what_all_names_is_there_and_nothing_hides_a_submodule(package):
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", []):
        assert getattr(module, name) is not None
    for found in pkgutil.iter_modules(module.__path__):
        if found.name == "__main__":
            continue  # importing it would run it
        within = importlib.import_module(f"{package}.{found.name}")
        assert getattr(module, found.name) is within, f"{package}.{found.name} is hidden behind another name"


def test_the_type_checker_is_told_of_every_public_name():
    text = Path(idiolect.__file__).read_text("utf-8")
    told = text[text.index("if TYPE_CHECKING") :]
    for name in idiolect.__all__:
        assert re.search(rf"\b{name}\b", told), f"{name} is public, but not among the imports for type checkers"


@pytest.mark.parametrize("name", idiolect.__all__)
def test_public_names_say_what_they_are(name):
    assert (getattr(idiolect, name).__doc__ or "").strip(), f"idiolect.{name} has no docstring"


@pytest.mark.parametrize(("package", "name"), public_functions())
def test_public_functions_tell_every_argument_what_they_return_and_an_example(package, name):
    function = getattr(importlib.import_module(package), name)
    text = inspect.getdoc(function)
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"^    \*?{parameter}: ", text, re.M), (
            f"{package}.{name} does not tell its argument {parameter}"
        )
    assert "Returns:\n" in text
    assert ">>> " in text, f"{package}.{name} has no example"


def modules_with_examples() -> list[str]:
    root = Path(idiolect.__file__).parent
    paths = [path for path in sorted(root.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
    names = [".".join(("idiolect", *path.relative_to(root).with_suffix("").parts)) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


@pytest.mark.parametrize("module", modules_with_examples())
def test_examples_in_docstrings_run(module, tmp_path):
    if module in EXTRAS:
        pytest.importorskip(EXTRAS[module])
    found = doctest.testmod(importlib.import_module(module), extraglobs={"tmp": tmp_path})
    assert found.attempted > 0
    assert found.failed == 0


def test_the_command_line_starts_without_jax_and_the_package_without_its_extras():
    extras = ("ray", "torch", "onnx", "onnxruntime", "gymnasium", "pyarrow", "pandas", "torchax", "zenoh")
    extras += ("transformers", "peft", "equinox", "flax", "haiku")
    code = "import sys, idiolect.cli; print([name for name in sys.modules if name in ('jax', 'numpy')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    code = "import sys, idiolect.torch; from idiolect import learn, run, open_run, problem; "
    code += f"print([name for name in {extras} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_without_pytorch_its_door_says_what_to_install():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda name, package=None: None if name == 'torch' else found(name, package)\n"
        "import idiolect.torch\n"
        "try: idiolect.torch.problem\n"
        "except idiolect.UserMistake as reason: print(reason)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "idiolect.torch needs PyTorch; pip install 'idiolect[torch]'\n"
