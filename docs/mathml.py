"""Formulas as MathML, which a browser shows without a script, and code that is open at once."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
# mkdocs-jupyter leaves the formulas of a notebook as they are; its scripts have dollars too.
_PARAGRAPH = re.compile(r"<(p|li)>.*?</\1>", re.DOTALL)
_DOLLARS = re.compile(r"\$([^$<>]+)\$")


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Replace the TeX of a page with MathML, and open the code beside equations."""

    def inline(found: re.Match[str]) -> str:
        return str(convert(unescape(found[1])))

    if page.file.src_uri.endswith(".ipynb"):
        return _PARAGRAPH.sub(lambda found: _DOLLARS.sub(inline, found[0]), html)
    html = html.replace(
        '<details class="mkdocstrings-source"', '<details open class="mkdocstrings-source"'
    )

    def block(found: re.Match[str]) -> str:
        # On a phone the formula scrolls, and not the page.
        math = convert(unescape(found[1]), display="block")
        return f'<div style="overflow-x: auto">{math}</div>'

    html = _BLOCK.sub(block, html)
    return _INLINE.sub(inline, html)
