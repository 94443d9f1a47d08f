"""Pages in Firefox: errors, requests, overflow, how fast sliders answer, and the rules of axe-core.

    python -m tools.firefox docs/article.html [PAGE ...] [--axe axe.min.js] [--screenshots FOLDER]

It drives Debian's Firefox by WebDriver BiDi (https://w3c.github.io/webdriver-bidi). ``npm pack
axe-core`` brings axe.min.js. Exit status 1 if a page prints a message, asks for anything that is
not its own, is wider than the window, or has a serious violation.
"""

import argparse
import base64
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.exceptions import InvalidHandshake
from websockets.sync.client import connect
from websockets.sync.connection import Connection

_PORT = 9333
_SIZES = ((1280, 720), (390, 844))
_SECONDS_TO_START = 60

# Milliseconds from each slider's input to the end of the frame that draws it: callbacks of a frame
# run in the order in which they were asked for, and the page asks first.
_SLIDERS = """
(async () => {
  const frame = () => new Promise(requestAnimationFrame), found = [];
  await new Promise((done) => setTimeout(done, 1000)); // It was opened a while ago.
  const name = (slider) => slider.closest("figure")?.dataset.figure ?? slider.name;
  for (const slider of document.querySelectorAll("input[type=range]")) {
    slider.scrollIntoView();
    await frame();
    await frame(); // Drawing what came into view is not the slider's answer.
    for (const value of [slider.min, slider.max]) {
      const begun = performance.now();
      slider.value = value;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
      await frame();
      found.push([performance.now() - begun, name(slider)]);
    }
  }
  return JSON.stringify(found);
})()
"""
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
_AXE = """
axe.run().then(({ violations }) => JSON.stringify(violations
  .filter(({ impact }) => impact !== "minor").map(({ id, nodes }) => [id, nodes[0].html])))
"""


class Firefox:
    """A session with a headless Firefox; what it reports is kept by kind."""

    def __init__(self, socket: Connection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.messages: list[str] = []
        self.requests: list[str] = []

    def send(self, method: str, **parameters: Any) -> Any:
        """Result of a command; events that come before it are kept."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("method") == "log.entryAdded":
                self.messages.append(str(answer["params"]["text"]))
            elif answer.get("method") == "network.beforeRequestSent":
                self.requests.append(answer["params"]["request"]["url"])
            elif answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
                return answer["result"]

    def evaluate(self, context: str, expression: str) -> Any:
        """Value of an expression of the page, a number or a string."""
        target = {"context": context}
        found = self.send(
            "script.evaluate", expression=expression, target=target, awaitPromise=True
        )
        if found["type"] != "success":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return found["result"].get("value")


@contextmanager
def firefox() -> Iterator[Firefox]:
    """Start Firefox with a profile of its own, and end it."""
    with tempfile.TemporaryDirectory() as profile:
        # Nothing moves by itself, so that what answers a slider is timed alone.
        Path(profile, "user.js").write_text('user_pref("ui.prefersReducedMotion", 1);')
        command = ["firefox", "--headless", f"--remote-debugging-port={_PORT}"]
        process = subprocess.Popen(
            [*command, "--profile", profile], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            with _connected() as socket:
                session = Firefox(socket)
                session.send("session.new", capabilities={})
                session.send(
                    "session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"]
                )
                yield session
        finally:
            process.terminate()
            process.wait()


def _connected() -> Connection:
    end = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            return connect(f"ws://127.0.0.1:{_PORT}/session", max_size=None)
        except (OSError, InvalidHandshake):
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def faults_of(browser: Firefox, page: Path, axe: str, screenshots: Path | None) -> list[str]:
    """What is wrong with a page, at every size of the window."""
    faults = []
    (tab,) = browser.send("browsingContext.getTree")["contexts"]
    context = tab["context"]
    for width, height in _SIZES:
        browser.messages.clear()
        browser.requests.clear()
        browser.send(
            "browsingContext.setViewport",
            context=context,
            viewport={"width": width, "height": height},
        )
        url = page.resolve().as_uri()
        browser.send("browsingContext.navigate", context=context, url=url, wait="complete")
        times = json.loads(browser.evaluate(context, _SLIDERS))
        if times:
            slowest, name = max(times)
            print(f"{page.name}, {width} wide: sliders answer in {slowest:.0f} ms ({name}) or less")
        if (overflow := browser.evaluate(context, _OVERFLOW)) > 0:
            faults.append(f"{width} wide: {overflow} pixels too wide")
        if axe:
            browser.evaluate(context, axe + "; 0")
            faults += [f"{width} wide: {v}" for v in json.loads(browser.evaluate(context, _AXE))]
        if screenshots is not None:
            shot = browser.send("browsingContext.captureScreenshot", context=context)
            (screenshots / f"{page.stem}-{width}.png").write_bytes(base64.b64decode(shot["data"]))
        foreign = [u for u in browser.requests if not u.startswith(("file:", "blob:", "data:"))]
        faults += [f"{width} wide: {found}" for found in (*browser.messages, *foreign)]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js")
    parser.add_argument(
        "--screenshots", type=Path, help="folder for a screenshot of each page and size"
    )
    options = parser.parse_args()
    axe = options.axe.read_text(encoding="utf-8") if options.axe else ""
    count = 0
    with firefox() as browser:
        for page in options.pages:
            faults = faults_of(browser, page, axe, options.screenshots)
            count += len(faults)
            print(f"{page}: {len(faults)} faults", *faults, sep="\n  ", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
