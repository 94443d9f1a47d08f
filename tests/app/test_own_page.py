"""The live page takes commands from its own page alone."""

import contextlib

import pytest

pytest.importorskip("viser", reason="needs pip install -e '.[live]'")

from websockets.datastructures import Headers

from app.live import viewer
from app.live.own_page import is_own_page
from app.options import UsageError
from tools.live_page import attack

# The server's own threads end after its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.parametrize(
    ("headers", "is_websocket", "expected"),
    [
        ([("Host", "127.0.0.1:8080")], False, True),
        ([("Host", "localhost:8080")], False, True),
        ([("Host", "[::1]:8080")], False, True),
        # A name that was pointed at this machine.
        ([("Host", "evil.example:8080")], False, False),
        ([("Host", "127.0.0.1.evil.example")], False, False),
        ([("Host", "[broken")], False, False),
        ([], False, False),
        ([("Host", "127.0.0.1:8080"), ("Host", "evil.example")], False, False),
        ([("Host", "127.0.0.1:8080"), ("Origin", "http://127.0.0.1:8080")], True, True),
        ([("Host", "127.0.0.1:8080"), ("Origin", "http://evil.example")], True, False),
        ([("Host", "127.0.0.1:8080"), ("Origin", "http://evil.example")], False, False),
        # Another page of this machine.
        ([("Host", "127.0.0.1:8080"), ("Origin", "http://127.0.0.1:3000")], True, False),
        ([("Host", "127.0.0.1:8080"), ("Origin", "null")], True, False),
        ([("Host", "127.0.0.1:8080")], True, False),
    ],
)
def test_only_the_page_itself_is_answered(
    headers: list[tuple[str, str]], is_websocket: bool, expected: bool
) -> None:
    assert is_own_page(Headers(headers), is_websocket=is_websocket) is expected


def test_a_viser_that_lets_other_sites_in_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "own_page_only", contextlib.nullcontext)
    with pytest.raises(UsageError, match="lets other sites"):
        viewer.LivePage("cat")


@pytest.mark.slow
def test_hostile_messages_change_no_bit_of_a_fit_and_print_nothing() -> None:
    seen, same, printed = attack(24, seed=1)
    assert seen["foreign refused"] == 12
    assert seen["foreign opened"] == 0
    assert seen["own opened"] == 12
    assert same
    assert printed == ""
