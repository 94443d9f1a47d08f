"""Formulas as MathML, which a browser shows without a script."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Replace the TeX that the Markdown extension has marked with MathML."""
    html = _BLOCK.sub(lambda found: convert(unescape(found[1]), display="block"), html)
    return _INLINE.sub(lambda found: convert(unescape(found[1])), html)
