"""The live page takes commands from its own page alone."""

import asyncio
import contextlib

import pytest

from tests.optional import needs

needs("viser", "websockets")

# ruff: noqa: E402
import viser
from websockets.asyncio.client import connect
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from nerf_posenc_app.live import viewer
from nerf_posenc_app.live.origin_check import is_own_page
from nerf_posenc_app.options import UsageError

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


def test_other_pages_reach_no_fit_and_what_is_no_message_is_dropped() -> None:
    async def status(origin: str) -> int:
        protocol = [Subprotocol(f"viser-v{viser.__version__}")]
        address = page.url.replace("http://", "ws://")
        try:
            async with connect(address, origin=Origin(origin), subprotocols=protocol) as socket:
                for message in (b"\xc1", b"", "text", b"\x81\xa4type\xc0"):
                    with contextlib.suppress(ConnectionClosed):
                        await socket.send(message)
            return 101
        except InvalidStatus as error:
            return error.response.status_code

    with viewer.LivePage("cat") as page:
        assert asyncio.run(status("http://evil.example")) == 403
        assert asyncio.run(status("null")) == 403
        # The second connection finds the server still alive.
        assert [asyncio.run(status(page.url)) for _ in range(2)] == [101, 101]
