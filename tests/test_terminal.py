"""What the terminal says beside the table."""

import pytest

from idiolect.report.remarks import refusals_in_words


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ({"7": {"not finite": 12}}, "client 7: 12 updates refused (not finite)"),
        (
            {"7": {"not finite": 1, "too large": 2}, "9": {"wrong shape": 1}},
            "client 7: 3 updates refused (not finite, too large); client 9: 1 update refused (wrong shape)",
        ),
        ({"1": {"not finite": 2, "cut down": 4}}, "client 1: 2 updates refused (not finite), 4 updates cut down"),
        ({"1": {"cut down": 1}}, "client 1: 1 update cut down"),
    ],
)
def test_refusals_are_told_by_client_and_reason(clients, words):
    assert refusals_in_words(clients) == words


def test_many_refused_clients_are_counted():
    words = refusals_in_words({str(client): {"too large": 2} for client in range(8)})
    assert words.count("client ") == 5
    assert words.endswith("; and 3 more clients")
