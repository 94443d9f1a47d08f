"""The live page takes commands from its own page alone, not from others in the same browser."""

import contextlib
import http
import http.client
import logging
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from nerf_posenc_app.options import UsageError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_own_page(headers: Any, *, is_websocket: bool) -> bool:
    """Whether a request comes from this machine's browser, and a WebSocket from the page itself.

    A page of another site names itself as the Origin; one whose name was pointed at this machine
    (DNS rebinding) names itself as the Host.

    Args:
        headers: headers of the request.
        is_websocket: whether a WebSocket is asked for, which must name an Origin.
    """
    hosts, origins = headers.get_all("Host"), headers.get_all("Origin")
    try:
        is_local = len(hosts) == 1 and urlsplit(f"//{hosts[0]}").hostname in _LOOPBACK
    except ValueError:
        return False
    if not is_local:
        return False
    return origins == [f"http://{hosts[0]}"] if is_websocket or origins else True


@contextlib.contextmanager
def own_page_only() -> Iterator[None]:
    """Let the server of viser that is started in this context refuse all other pages.

    viser has no setting for it, so its own reference to websockets is replaced while it starts;
    other servers of this process are left alone. What a client sends wrongly is not printed.
    """
    import rich
    import viser.infra._infra
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    for name in ("websockets.server", "asyncio"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    # viser prints what it rejects.
    rich.get_console().quiet = True
    warnings.filterwarnings("ignore", category=UserWarning, module=r"viser\.")
    warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
    infra: Any = viser.infra._infra
    websockets = infra.websockets

    def serve(*args: Any, process_request: Callable[..., Any], **kwargs: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            is_websocket = request.headers.get("Upgrade", "").lower() == "websocket"
            if not is_own_page(request.headers, is_websocket=is_websocket):
                return Response(http.HTTPStatus.FORBIDDEN, "Forbidden", Headers(), b"")
            return process_request(connection, request)

        return websockets.asyncio.server.serve(*args, process_request=check, **kwargs)

    server = SimpleNamespace(**{**vars(websockets.asyncio.server), "serve": serve})
    checked = {**vars(websockets), "asyncio": SimpleNamespace(server=server)}
    infra.websockets = SimpleNamespace(**checked)
    try:
        yield
    finally:
        infra.websockets = websockets


def require_own_page_only(port: int) -> None:
    """Ask the server as the page of another site would, and expect to be refused.

    Raises:
        UsageError: If it answers, since then any site could command it.
    """
    foreign = {"Origin": "http://elsewhere.invalid"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/", headers=foreign)
        status = connection.getresponse().status
    if status != http.HTTPStatus.FORBIDDEN:
        raise UsageError(
            "--live: this version of viser lets other sites in the same browser command the page; "
            "install the one that is tested: pip install -c constraints.txt '.[live]' in the clone "
            "of nerf_posenc"
        )
