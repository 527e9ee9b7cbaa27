"""The page's small server: strict with whoever asks, and never silent about what it cannot read."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import idiolect
from idiolect.cli import main
from idiolect.errors import UserMistake
from idiolect.experiments.describing import write_experiment
from idiolect.experiments.recipe_files import completed
from idiolect.watching import View, page_server, watcher

SEEN = View("</script><b>mine", "under way", "it has begun")


@contextmanager
def serving(look, **options) -> Iterator[int]:
    with page_server(look, port=0, **options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def asked(port: int, path: str = "/state.json", *, method: str = "GET", host: str | None = None):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, headers={} if host is None else {"Host": host})
    answer = line.getresponse()
    return answer.status, answer.headers, answer.read()


@pytest.fixture(scope="module")
def port():
    with serving(lambda: SEEN) as port:
        yield port


def test_the_page_and_its_parts_are_answered_with_strict_headers(port):
    kinds = {
        "/": "text/html",
        "/watch.css": "text/css",
        "/watch.js": "text/javascript",
        "/plotly.js": "text/javascript",
    }
    for path, kind in {**kinds, "/state.json": "application/json"}.items():
        code, headers, content = asked(port, path)
        assert (code, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert "default-src 'none'; script-src 'self';" in headers["Content-Security-Policy"]
        assert "unsafe-eval" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert len(content) == int(headers["Content-Length"]) > 0
    page = asked(port, "/")[2].decode()
    assert "<script>" not in page, "nothing is inline, so nothing inline has to be allowed"
    assert "http" not in page.replace("http-equiv", ""), "nothing comes from elsewhere"


def test_what_is_told_is_text_that_ends_no_script(port):
    content = asked(port)[2]
    assert b"<" not in content
    assert json.loads(content)["title"] == "</script><b>mine"


@pytest.mark.parametrize(
    "path", ["/../recipe.toml", "/recipe.toml", "//etc/passwd", "/%2e%2e/x", "/state.json?x=1", "*"]
)
def test_no_path_becomes_a_file(port, path):
    code, _, content = asked(port, path)
    assert (code, content) == (404, b"there is no such page\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_only_get_is_answered(port, method):
    assert asked(port, method=method)[0] == 501


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:1234", 200),
        ("localhost:8470", 200),
        ("[::1]:8470", 200),
        ("evil.example", 403),
        ("evil.example:8470", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
        ("", 403),
        ("[", 403),
    ],
)
def test_a_name_that_anybody_could_point_here_is_turned_away(port, host, code):
    assert asked(port, host=host)[0] == code


def test_a_name_that_was_given_is_taken(port):
    with serving(lambda: SEEN, host="localhost") as other:
        line = http.client.HTTPConnection("localhost", other, timeout=60)
        line.request("GET", "/state.json", headers={"Host": "LOCALHOST"})
        assert line.getresponse().status == 200


def test_what_cannot_be_read_is_a_sentence_and_a_bug_ends_nothing():
    wrong: list[Exception] = [UserMistake("it is damaged"), ZeroDivisionError("secret")]

    def look() -> View:
        raise wrong[0]

    with serving(look) as port:
        assert json.loads(asked(port)[2])["status"] == "it is damaged"
    del wrong[0]
    with serving(look) as port:
        told = json.loads(asked(port)[2])
        assert (told["state"], told["status"]) == ("cannot be shown", "this is a bug: ZeroDivisionError")


@pytest.fixture
def begun(tmp_path):
    """The folder of a run that was killed as soon as it had begun."""
    mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 3}), ["local"], horizon=10.0)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text(write_experiment(completed(mine)))
    return tmp_path / "run"


def test_a_taken_port_is_one_sentence_and_without_one_another_is_found(begun, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["watch", str(begun), "--port", str(port)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"idiolect: --host 127.0.0.1 --port {port} cannot be listened at: ")
        assert said.count("\n") == 1
        monkeypatch.setattr("idiolect.watching.local_pages.PORT", port)
        with page_server(lambda: SEEN) as server:
            assert server.server_address[1] != port
    assert main(["watch", str(begun), "--port", "70000"]) == 2
    assert "--port is 70000, but must be from 0 to 65535" in capsys.readouterr().err
    assert main(["watch", str(begun), "--host", "no such host"]) == 2
    assert "--host no such host" in capsys.readouterr().err


def test_a_run_is_watched_over_http_while_it_goes_on(tmp_path):
    mine = idiolect.Experiment(idiolect.Choice("quadratics", {"clients": 3}), ["rasgp"], horizon=10.0)
    seen = []

    def hear(label, seed, point):
        with serving(watcher(tmp_path / "run")) as port:
            seen.append(json.loads(asked(port)[2]))

    idiolect.run(mine, out=tmp_path / "run", listen=hear)
    assert {one["state"] for one in seen} == {"under way"}
    assert [len(one["figures"][0]["data"][0]["x"]) for one in seen] == list(range(1, len(seen) + 1))
    assert {figure["name"] for figure in seen[-1]["figures"]} == {"scores", "staleness", "ledger-rasgp"}
    masses = [trace["y"] for trace in seen[-1]["figures"][2]["data"]]
    assert [sum(column) for column in zip(*masses, strict=True)] == pytest.approx([3.0] * len(seen), rel=1e-4)


def test_ctrl_c_ends_it_quietly(begun, capsys, monkeypatch):
    opened = []

    def interrupt(self, poll_interval=0.5):
        raise KeyboardInterrupt

    monkeypatch.setattr("socketserver.BaseServer.serve_forever", interrupt)
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert main(["watch", str(begun), "--port", "0", "--open"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(f"Watching {begun}: {opened[0]}")
    assert opened[0].startswith("http://127.0.0.1:")
