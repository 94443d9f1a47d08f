"""The pages of the companion: their code runs as pasted, and their images and links exist."""

import re
from pathlib import Path

import pytest

from docs.more_pages import site_path, with_site_links
from more.tools import source_links
from nerf_posenc_app.data.shipped import shipped
from nerf_posenc_app.kinds import KINDS
from tests.test_docs import PAGES as PRODUCT_PAGES
from tests.test_docs import (
    ROOT,
    check_lengths,
    check_links,
    check_numbers,
    name_of,
    run_code,
    with_code,
)

PAGES = sorted([ROOT / "more/README.md", *ROOT.glob("more/docs/**/*.md")])
ALL_PAGES = [*PRODUCT_PAGES, *PAGES]
NOUNS = {
    "audio": "sound",
    "clip": "clip",
    "photos": "photo",
    "scan": "scan",
    "shape": "shape|mesh",
    "volume": "volume",
}
"""How pages name the kinds of data of the companion."""


@pytest.mark.usefixtures("unchecked", "own_folder")
@pytest.mark.parametrize("page", with_code(PAGES))
def test_every_block_of_code_runs_alone_and_prints_what_is_shown(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_code(page, capsys)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    check_links(page)


def test_pages_are_short() -> None:
    check_lengths(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_figures_in_prose_are_in_the_record(page: Path) -> None:
    check_numbers(page)


def test_links_of_the_repository_become_those_of_the_site() -> None:
    assert site_path("more/docs/systems/bert.md") == "more/systems/bert.md"
    assert site_path("benchmarks/README.md") is None
    for markdown, place, expected in (
        ("[a](../../more/docs/audio.md#x)", "howto/image.md", "[a](../more/audio.md#x)"),
        ("[b](../../docs/howto/image.md)", "more/audio.md", "[b](../howto/image.md)"),
        ("[c](docs/audio.md) [d](../README.md)", "more/index.md", "[c](audio.md) [d](../index.md)"),
        ("[e](../more/README.md)", "index.md", "[e](more/index.md)"),
        ("[f](https://example.org) [g](scenes.md)", "index.md", None),
    ):
        assert with_site_links(markdown, place) == (expected or markdown)
    source = "[h](../train_fit.py#L3)"
    assert with_site_links(source, "index.md") == "h"
    address = "https://a.b/blob/main/train_fit.py#L3"
    assert with_site_links(source, "index.md", "https://a.b") == f"[h]({address})"


def test_directives_have_a_link_to_their_source() -> None:
    for page in source_links.PAGES:
        assert source_links.with_links(page) == page.read_text(encoding="utf-8"), (
            "run python -m more.tools.source_links"
        )


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_scenes_of_commands_are_built_in_or_in_capitals(page: Path) -> None:
    for name in re.findall(r"--scene ([\w./<-]+)", page.read_text(encoding="utf-8")):
        assert (
            name in shipped("scene") or name.isupper() or name.startswith("--") or name == "mine.py"
        )


def test_every_kind_of_the_companion_has_a_noun() -> None:
    assert NOUNS.keys() == {
        name for name, kind in KINDS.items() if kind.__module__.startswith("nerf_posenc_kinds")
    }


@pytest.mark.parametrize("page", ALL_PAGES, ids=name_of)
def test_lists_of_kinds_have_every_kind(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        missing = [name for name, noun in NOUNS.items() if not re.search(noun, line, re.IGNORECASE)]
        # A line that names most kinds is a list of them.
        assert len(missing) > len(NOUNS) // 2 or not missing, (line, missing)
