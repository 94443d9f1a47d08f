"""The documentation: its code runs as pasted, and its images and links exist."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from docs import make_results
from docs.make_presets import page as presets_page
from nerf_posenc.radiance import FIELDS
from nerf_posenc.training import ENCODINGS
from nerf_posenc.training.recipes import NETWORKS
from nerf_posenc_app.kinds.image.scores import SCORES
from nerf_posenc_app.report.page import SECTIONS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
LONG = ("equivalents", "saved", "python")


def code_blocks(page: Path) -> list[tuple[int, str, str]]:
    """Blocks of Python on a page: the number of lines above, the code, and the output shown."""
    text = page.read_text(encoding="utf-8")
    pattern = r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?"
    found = re.finditer(pattern, text, re.DOTALL)
    return [(text[: block.start(1)].count("\n"), block[1], block[2] or "") for block in found]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_code(pages: Iterable[Path]) -> list[Any]:
    """Pages with code, as parameters of a test."""
    return [
        pytest.param(page, marks=pytest.mark.slow if page.stem in LONG else (), id=name_of(page))
        for page in pages
        if code_blocks(page)
    ]


def prose_of(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.usefixtures("unchecked", "own_folder")
@pytest.mark.parametrize("page", with_code(PAGES))
def test_every_block_of_code_runs_alone_and_prints_what_is_shown(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_code(page, capsys)


def run_code(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run every block of a page alone, and compare what it prints."""
    named: list[Any] = [ENCODINGS, NETWORKS, FIELDS, SCORES, SECTIONS]
    tables = [(table, dict(table)) for table in named]
    for line, block, output in code_blocks(page):
        capsys.readouterr()
        try:
            # Names of its own: a reader pastes one block alone.
            exec(compile("\n" * line + block, str(page), "exec"), {"__name__": "page"})
        finally:
            # Extend adds one to each.
            for table, rows in tables:
                table.clear()
                table.update(rows)
        assert capsys.readouterr().out == output, f"{page}, line {line}"


def test_no_page_of_the_product_imports_the_companion() -> None:
    for page in PAGES:
        for line, block, _ in code_blocks(page):
            assert not re.search(r"nerf_posenc_(audit|kinds|sequences)", block), (page, line)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    check_links(page)


def check_links(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", prose_of(page)):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_promise_of_security_names_a_test_that_exists() -> None:
    tests = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("tests/**/test_*.py"))
    for promise in (ROOT / "SECURITY.md").read_text(encoding="utf-8").split("\n- ")[1:]:
        named = re.findall(r"`(test_\w+)`", promise)
        assert named, promise
        assert [name for name in named if f"\ndef {name}(" not in tests] == []


def test_pages_are_short() -> None:
    check_lengths(PAGES)


def check_lengths(pages: Iterable[Path]) -> None:
    # But for those that are looked up: tables of encodings, figures, and a log for developers.
    references = {"equivalents", "presets", "results", "experiments"}
    for page in pages:
        # Not the bars of tables.
        words = re.findall(r"\S*\w\S*", prose_of(page))
        assert len(words) <= 1200 or page.stem in references, (page, len(words))


RECORDED = [cell for path in make_results.RECORDS for cell in make_results.read(path)]


@pytest.mark.parametrize("page", make_results.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_of_results_are_those_of_the_record(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert make_results.page_with(text, RECORDED) == text, "run python -m docs.make_results"


def test_every_table_of_the_record_stands_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in make_results.pages())
    assert [c["table"] for c in RECORDED if f"<!-- table {c['table']} -->" not in pages] == []


def test_figures_in_prose_are_in_the_record() -> None:
    for path in PAGES:
        is_claiming = path.stem in {"README", "index", "gallery"} or path.parent.name == "howto"
        # What a GPU does stands there alone.
        if is_claiming and path.stem != "gpu":
            check_numbers(path)


def check_numbers(page: Path) -> None:
    """Check that the numbers in dB or degrees of a page are those of the record, rounded."""
    known = [float(v) for cell in RECORDED for v in re.findall(r"\d+(?:\.\d+)?", cell["value"])]
    for number in re.findall(r"(?<![\d.])(\d+(?:\.\d+)?) (?:dB|degrees)\b", prose_of(page)):
        digits = len(number.partition(".")[2])
        assert number in {rounded_up(value, digits) for value in known}, f"{page.name}: {number}"


def rounded_up(value: float, digits: int) -> str:
    """A number with so many digits; halves are rounded up, though binary numbers may be less."""
    return f"{value + 1e-9:.{digits}f}"


def test_every_preset_is_listed_on_its_page() -> None:
    page = (ROOT / "docs/encoders/presets.md").read_text(encoding="utf-8")
    assert page == presets_page(), "run python -m docs.make_presets"


def test_every_module_of_the_wings_is_in_the_api_pages() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/api/*.md"))
    lines = set(pages.splitlines())
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("networks", "metrics", "training", "radiance", "analysis", "fits")
        for path in ROOT.glob(f"nerf_posenc/{package}/[a-z]*.py")
    ]
    assert all(f"::: {module}" in lines for module in modules)
