"""The examples with PyTorch run, in a short form."""

import importlib.util

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'idiolect[torch]'")

from tests.examples.notebooks import EXAMPLES, rerun


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_torch_model(tmp_path, capsys):
    loaded("own_torch_model").main(str(tmp_path / "run"), horizon=20.0, points=1)
    said = capsys.readouterr().out
    assert "user 0 has 228 parameters of its own" in said
    assert (tmp_path / "run" / "report.html").is_file()


def test_lora_text_classifier(tmp_path, capsys):
    pytest.importorskip("peft", reason="peft is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    loaded("lora_text_classifier").main(str(tmp_path / "run"), horizon=4.0, points=1)
    said = capsys.readouterr().out
    assert "numbers learn and travel" in said
    assert "pars_push" in said


def test_own_torch_model_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rerun("own_torch_model.ipynb")
    assert (tmp_path / "user-0.safetensors").is_file()
