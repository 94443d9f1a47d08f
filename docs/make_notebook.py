"""Make the notebook of the tutorial, with fresh outputs.

    python docs/make_notebook.py [--out FILE]

The cells are in ``notebooks/tutorial.py``, separated by ``# %%``.
"""

import argparse
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
SOURCE = DOCS / "notebooks" / "tutorial.py"
NOTEBOOK = SOURCE.with_suffix(".ipynb")
_SECONDS_PER_CELL = 300


def read_cells(source: Path = SOURCE) -> list[tuple[str, str]]:
    """Cells of a script in the percent format, as pairs of kind and text.

    Args:
        source: a script whose cells begin with ``# %%`` or ``# %% [markdown]``; what comes before
            the first is left out.

    Returns:
        Kinds are ``"code"`` and ``"markdown"``.
    """
    parts = re.split(r"^# %%(.*)\n", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    cells = []
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        if head.strip() == "[markdown]":
            text = re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE)
            cells.append(("markdown", text))
        else:
            cells.append(("code", body.strip()))
    return cells


def make_notebook(source: Path = SOURCE) -> Any:
    """Make a notebook without outputs."""
    import nbformat.v4

    cells = []
    for number, (kind, text) in enumerate(read_cells(source)):
        new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
        # Random names would change with every run.
        cells.append(new(text, id=f"cell-{number:02}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def execute(notebook: Any) -> None:
    """Run all cells in a fresh kernel.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell fails.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=_SECONDS_PER_CELL,
        record_timing=False,
        resources={"metadata": {"path": str(DOCS.parent)}},
    )
    client.execute()
    # The patch version of the interpreter is of no interest to a reader.
    notebook.metadata.get("language_info", {}).pop("version", None)


def main() -> None:
    import nbformat

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=NOTEBOOK)
    options = parser.parse_args()
    notebook = make_notebook()
    execute(notebook)
    nbformat.write(notebook, options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
