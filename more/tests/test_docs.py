"""The pages of the companion: their code runs as pasted, and their images and links exist."""

from pathlib import Path

import pytest

from docs import source_links
from docs.more_pages import site_path, with_site_links
from tests.test_docs import (
    ROOT,
    check_figures,
    check_lengths,
    check_links,
    name_of,
    run_code,
    with_code,
)

PAGES = sorted([ROOT / "more/README.md", *ROOT.glob("more/docs/**/*.md")])
RESULTS = [ROOT / "more/docs/results.md", ROOT / "docs/results.md"]


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


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name != "systems"], ids=name_of
)
def test_every_figure_of_the_pages_stands_in_the_results(page: Path) -> None:
    # Experiments have figures of their own.
    if page.stem not in {"results", "experiments"}:
        check_figures(page, RESULTS)


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


def test_directives_have_a_link_to_their_source() -> None:
    for page in source_links.PAGES:
        assert source_links.with_links(page) == page.read_text(encoding="utf-8"), (
            "run python -m docs.source_links"
        )
