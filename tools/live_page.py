"""Hostile messages to the live page during a fit.

    python -m tools.live_page [--count 1000]

Half of them come from a foreign Origin or Host, and all of those must be refused; the others are
malformed messages from the page's own Origin. The fit must end with the same bits as without them,
and nothing may be printed. Exit status 1 if not.
"""

import argparse
import asyncio
import contextlib
import io
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import torch
import viser
import websockets
from torch import Tensor
from websockets.asyncio.client import connect
from websockets.typing import Origin, Subprotocol

from app.kinds.kind import View
from app.kinds.scene import SceneKind, SceneOptions
from app.live.viewer import LivePage
from app.runs.stop import Stop
from app.runs.train import begin_fit, result_of, train
from scenes import analytic_scene

_VALUES: list[Any] = [
    *(0, -1, 1, 1_000_000, 2**63, -(2**40), 0.0, -0.0, 1e300, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), None, "", "x" * 1000, [], [[[]]], {}, True, b"\0"),
]


def camera_message(rng: random.Random) -> bytes:
    """A camera with one or more hostile values."""
    message: dict[str, Any] = {
        "type": "ViewerCameraMessage",
        "wxyz": [1.0, 0.0, 0.0, 0.0],
        "position": [0.0, 0.0, 3.0],
        "fov": 0.8,
        "near": 0.01,
        "far": 1000.0,
        "image_height": 480,
        "image_width": 640,
        "look_at": [0.0, 0.0, 0.0],
        "up_direction": [0.0, 0.0, 1.0],
    }
    for name in rng.sample(sorted(message), rng.randint(0, 3)):
        value = rng.choice(_VALUES)
        if isinstance(message[name], list) and rng.random() < 0.6:
            message[name] = [*message[name]]
            message[name][rng.randrange(len(message[name]))] = value
        else:
            message[name] = value
    return msgspec.msgpack.encode(message)


def random_message(rng: random.Random) -> bytes | str:
    """A camera, a broken camera, bytes, or text."""
    kind = rng.random()
    if kind < 0.6:
        return camera_message(rng)
    if kind < 0.8:
        damaged = bytearray(camera_message(rng))
        for _ in range(rng.randint(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        return bytes(damaged)
    return rng.randbytes(rng.randint(0, 200)) if kind < 0.95 else "text" * rng.randint(0, 50)


async def send_all(url: str, count: int, seed: int) -> dict[str, int]:
    """Send messages; return how many connections were refused and opened, by Origin."""
    rng = random.Random(seed)
    address = url.replace("http://", "ws://")
    host = url.removeprefix("http://")
    seen = {"foreign refused": 0, "foreign opened": 0, "own opened": 0, "messages": 0}
    protocol = [Subprotocol(f"viser-v{viser.__version__}")]
    for i in range(count):
        headers: dict[str, str] = {}
        origin: Origin | None = Origin(url)
        is_foreign = i % 2 == 0
        if is_foreign:
            origin, headers = rng.choice(
                [
                    (Origin("http://evil.example"), {}),
                    (Origin("null"), {}),
                    (None, {}),
                    (Origin("http://localhost:3000"), {}),
                    (Origin("http://evil.example"), {"Host": "evil.example"}),
                    (Origin(f"http://{host}.evil.example"), {}),
                ]
            )
        try:
            async with connect(
                address, origin=origin, subprotocols=protocol, additional_headers=headers,
                open_timeout=10, max_size=None,
            ) as socket:  # fmt: skip
                seen["foreign opened" if is_foreign else "own opened"] += 1
                for _ in range(3):
                    await socket.send(random_message(rng))
                    seen["messages"] += 1
                await asyncio.sleep(0.01)
        except websockets.exceptions.InvalidStatus as error:
            if is_foreign and error.response.status_code == 403:
                seen["foreign refused"] += 1
        except (websockets.exceptions.WebSocketException, OSError):
            # The server closed the connection, as it does after a malformed message.
            seen["messages"] += 1
    return seen


def weights_of_a_fit(page: LivePage | None, until: Callable[[], bool]) -> list[Tensor]:
    """Fit a small scene, slowed down until all messages are sent; return what it renders."""
    scene = analytic_scene("spheres", size=12, num_train=6, num_test=2)
    kind = SceneKind(SceneOptions(), scene)
    config = kind.resolve(
        SceneOptions(
            encodings=("fourier",),
            num_bands=3,
            steps=60,
            batch_size=64,
            optimizer="adam",
            lr=1e-3,
            width=16,
            depth=1,
            video=0,
            turntable=0,
            device="cpu",
            quiet=True,
        )
    )

    def show_slowly(*args: Any) -> None:
        """Show, and wait for the messages."""
        assert page is not None
        for _ in range(200):
            page.show(*args)
            if until():
                break
            time.sleep(0.05)

    fit = begin_fit(kind, "fourier", config)
    train(fit, Stop(), loss_name="mse", show=None if page is None else show_slowly)
    return [view.reconstruction for view in result_of(kind, fit).blocks(View)]


def attack(count: int, seed: int = 0) -> tuple[dict[str, int], bool, str]:
    """Fit with and without hostile messages.

    Returns:
        What became of the connections, whether both fits gave the same bits, and what was printed.
    """
    undisturbed = weights_of_a_fit(None, lambda: True)
    seen: dict[str, int] = {}
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        LivePage("spheres", poses=torch.eye(4)[None]) as page,
    ):
        sender = threading.Thread(
            target=lambda: seen.update(asyncio.run(send_all(page.url, count, seed)))
        )
        sender.start()
        disturbed = weights_of_a_fit(page, lambda: not sender.is_alive())
        sender.join()
    same = all(torch.equal(a, b) for a, b in zip(undisturbed, disturbed, strict=True))
    return seen, same, printed.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=1000, help="connections")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seen, same, printed = attack(options.count, options.seed)
    print(f"{seen}; the fit's bits are {'the same' if same else 'DIFFERENT'}")
    print(f"printed meanwhile: {printed or 'nothing'}")
    return 0 if same and not printed and not seen["foreign opened"] else 1


if __name__ == "__main__":
    sys.exit(main())
