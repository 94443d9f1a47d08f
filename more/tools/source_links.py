"""Write a link to the source above each directive that shows code.

Code hosts show a directive as its text; the link leads to the same lines there. Run by
``python -m more.tools.source_links``.
"""

import importlib
import inspect
import os
import re
from pathlib import Path
from typing import Any

PAGES = sorted((Path(__file__).parents[1] / "docs" / "systems").glob("*.md"))

# A directive, with the link that may be above it.
_DIRECTIVE = re.compile(r"(?:^Source: .*\n\n)?^::: (nerf_posenc[\w.]+)$", re.MULTILINE)


def with_links(page: Path) -> str:
    """Text of a page with a link above each of its directives."""

    def linked(found: re.Match[str]) -> str:
        file, line = source_of(found[1])
        target = f"{os.path.relpath(file, page.parent)}#L{line}".replace(os.sep, "/")
        return f"Source: [{file.name}, line {line}]({target})\n\n::: {found[1]}"

    return _DIRECTIVE.sub(linked, page.read_text(encoding="utf-8"))


def source_of(name: str) -> tuple[Path, int]:
    """File and line of a class or a method by its full name."""
    parts, value = name.split("."), None
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        break
    found: Any = value
    for part in parts[count:]:
        found = getattr(found, part)
    return Path(inspect.getfile(found)).resolve(), inspect.getsourcelines(found)[1]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_links(page), encoding="utf-8")
