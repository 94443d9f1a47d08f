"""Hook of the site: the pages and images of the companion, more/README.md and more/docs, as more/.

Links between the pages are those of the repository, so that they work on GitHub; here they become
those of the site.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PREVIEW = "images/comparison.png"
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the companion's pages and images to those of the site."""
    from mkdocs.structure.files import File

    paths = [ROOT / "more/README.md", *sorted((ROOT / "more/docs").rglob("*.*"))]
    for path in paths:
        place = site_path(path.relative_to(ROOT).as_posix())
        assert place is not None
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_post_build(config: Any) -> None:
    """Let the preview of the article, which others fetch, have addresses with the site's name."""
    article = Path(config["site_dir"]) / "article.html"
    if config["site_url"]:
        own, image = (f'content="{config["site_url"]}{name}"' for name in ("article.html", PREVIEW))
        text = article.read_text().replace(f'content="{PREVIEW}"', image)
        address = f'<meta property="og:url" {own}>\n<meta property="og:type"'
        article.write_text(text.replace('<meta property="og:type"', address, 1))


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Let links lead to their places in the site, and the search to what answers a question."""
    page.meta["search"] = {"boost": search_boost(page.file.src_uri)}
    return with_site_links(markdown, page.file.src_uri, config["repo_url"] or "")


def search_boost(place: str) -> float:
    """Factor of a page's rank in the search: how-tos first, what is looked up last.

    Args:
        place: its path in the site's sources, such as ``howto/image.md``.
    """
    looked_up = re.match(r"(more/)?(api|asked|equivalents|experiments|results|changelog)", place)
    is_table = place in ("encoders/presets.md", "architecture.md", "conventions.md", "extend.md")
    return 0.05 if looked_up or is_table else 4.0 if place.startswith("howto/") else 1.0


def with_site_links(markdown: str, place: str, repository: str = "") -> str:
    """A page with the links of the repository replaced by those of the site.

    Links to the source code lead to the repository; without an address they are plain text.

    Args:
        markdown: the page.
        place: its path in the site's sources, such as ``more/audio.md``.
        repository: address of the repository; empty if it is unknown.

    Examples:
        >>> with_site_links("[a](../../more/docs/audio.md#x)", "howto/image.md")
        '[a](../more/audio.md#x)'
        >>> with_site_links("[b](../../docs/howto/image.md)", "more/audio.md")
        '[b](../howto/image.md)'
        >>> with_site_links("[c](scenes.md)", "index.md")
        '[c](scenes.md)'
        >>> with_site_links("[d](../train_fit.py#L3)", "index.md", "https://a.b")
        '[d](https://a.b/blob/main/train_fit.py#L3)'
    """
    folder = posixpath.dirname(_repository_path(place))

    def replaced(link: re.Match[str]) -> str:
        text, given, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(folder, given))
        if ":" in given or not (ROOT / path).exists():
            return link[0]
        target = site_path(path)
        if target is None:
            return f"[{text}]({repository}/blob/main/{path}{anchor})" if repository else text
        return f"[{text}]({posixpath.relpath(target, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(replaced, markdown)


def site_path(path: str) -> str | None:
    """Where a file of the repository lies in the site's sources; None if it is not of the site."""
    if path in ("README.md", "more/README.md"):
        return path.replace("README", "index")
    if path.startswith("more/docs/"):
        return "more/" + path.removeprefix("more/docs/")
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def _repository_path(place: str) -> str:
    """Where a page of the site lies in the repository."""
    if place == "more/index.md":
        return "more/README.md"
    return place.replace("more/", "more/docs/", 1) if place.startswith("more/") else f"docs/{place}"
