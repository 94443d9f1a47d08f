"""A real browser for the tests of pages."""

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

_INSTALLED = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Debian's Chromium: apt-get install chromium"
)


def needs_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of a page as one for the browser, and as slow."""
    marked: Callable[..., None] = _INSTALLED(pytest.mark.slow(test))
    return marked


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright import sync_api as playwright

    quiet = "--disable-quic --disable-background-networking --disable-component-update"
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-sync", *quiet.split()],
        )
        yield launched
        launched.close()
