"""Write the tables of results into the pages, and measure them again.

    python -m docs.make_results                                  write the tables
    python -m docs.make_results known-frequency --data FOLDER    measure some, then write all

``docs/results.csv`` has a row a cell, and ``more/docs/results.csv`` those of the companion: the
table with its row and column, the value, and the command, machine, commit and date that it is from.
A cell of a fit also names the fit and the measure in ``metrics.json``, and can be measured again;
braces stand for several commands, ``kodim{01,02}.png``, of which it is the mean. Other cells say by
what they were measured, or where they are quoted from. A page has a table between its marks.
"""

import argparse
import csv
import io
import itertools
import json
import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = (ROOT / "docs/results.csv", ROOT / "more/docs/results.csv")
COLUMNS = [
    "table",
    "row",
    "column",
    "value",
    "command",
    "fit",
    "measure",
    "machine",
    "commit",
    "date",
]
_BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)

Cell = dict[str, str]


def read(path: Path) -> list[Cell]:
    """Cells of a record."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def pages() -> list[Path]:
    """Pages that may have tables."""
    return [*ROOT.glob("docs/**/*.md"), *ROOT.glob("more/docs/**/*.md")]


def table_of(cells: Sequence[Cell]) -> str:
    """Markdown of a table, with the commands below it."""
    columns = list(dict.fromkeys(cell["column"] for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(cell["row"], {})[cell["column"]] = cell["value"]
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[name, *(row.get(column, "") for column in columns)] for name, row in rows.items()]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    sources: dict[tuple[str, ...], dict[str, None]] = {}
    for cell in cells:
        is_command = cell["command"].startswith(("python ", "train_fit.py "))
        shown = f"`{cell['command']}`" if is_command else cell["command"]
        where = tuple(cell[key] for key in ("machine", "commit", "date") if cell[key])
        sources.setdefault(where, {})[shown] = None
    told = (
        ", ".join(commands) + (f" ({', '.join(where)})" if where else "")
        for where, commands in sources.items()
    )
    return f"{text}\n\nBy {'; '.join(told)}.\n"


def page_with(text: str, cells: Sequence[Cell]) -> str:
    """A page with its tables written anew.

    Raises:
        KeyError: If a table is not in the record.
    """
    tables: dict[str, list[Cell]] = {}
    for cell in cells:
        tables.setdefault(cell["table"], []).append(cell)
    return _BLOCK.sub(lambda block: block[1] + table_of(tables[block[2]]) + block[3], text)


def commands_of(command: str) -> list[str]:
    """The commands that one with braces stands for."""
    parts = re.split(r"\{([^}]*)\}", command)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def measured(command: str, data: Path | None) -> dict[str, Any]:
    """What one command wrote into its metrics.json."""
    words = shlex.split(command)[1:]
    for index, word in enumerate(words):
        if data is not None and not Path(word).exists() and "." in word:
            words[index] = str(next(iter(sorted(data.rglob(word))), word))
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words += ["--out", str(run), "--quiet", "--video", "0"]
        subprocess.run([sys.executable, str(ROOT / "train_fit.py"), *words], check=True)
        found: dict[str, Any] = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
        return found


def value_of(runs: Sequence[Mapping[str, Any]], fit: str, measure: str) -> str:
    """A score as pages have it: the mean of the runs, with what seeds differ by."""
    found = [{each["name"]: each for each in run["fits"]}[fit] for run in runs]
    one: dict[str, Any] = next(
        (each for each in runs[0]["measures"] if each["name"] == measure), {}
    )
    digits, unit = int(one.get("digits", 0)), "%" if one.get("unit") == "%" else ""
    seeds = [seed[measure] for seed in found[0].get("by_seed") or ()] if len(runs) == 1 else []
    spread = f" ± {statistics.stdev(seeds):.{digits}f} ({len(seeds)})" if len(seeds) > 1 else ""
    # Halves are rounded up, as the program's own tables have them.
    mean = math.fsum(each[measure] for each in found) / len(found)
    return f"{mean + 1e-9:.{digits}f}{unit}{spread}"


def measure_again(cells: Sequence[Cell], names: Sequence[str], data: Path | None) -> Iterator[str]:
    """Measure the cells of some tables, command by command, and give what differs."""
    commit = ["git", "rev-parse", "--short=8", "HEAD"]
    threads = os.environ.get("OMP_NUM_THREADS", os.cpu_count())
    stamp = {
        "machine": f"{platform.machine()}, {threads} threads",
        "commit": subprocess.check_output(commit, cwd=ROOT, text=True).strip(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    chosen = [cell for cell in cells if cell["table"] in names and cell["fit"]]
    for command in dict.fromkeys(cell["command"] for cell in chosen):
        runs = [measured(one, data) for one in commands_of(command)]
        for cell in (cell for cell in chosen if cell["command"] == command):
            before = cell["value"]
            cell.update(stamp, value=value_of(runs, cell["fit"], cell["measure"]))
            yield f"{cell['table']}, {cell['row']}, {cell['column']}: {before} -> {cell['value']}"


def text_of(cells: Sequence[Cell]) -> str:
    """A record as a CSV file."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(cells)
    return file.getvalue()


def main() -> None:
    """Measure the named tables, and write the pages."""
    parser = argparse.ArgumentParser(prog="python -m docs.make_results")
    parser.add_argument("tables", nargs="*", help="tables to measure again")
    parser.add_argument("--data", type=Path, help="folder with the files that commands name")
    options = parser.parse_args()
    records = [read(path) for path in RECORDS]
    for path, cells in zip(RECORDS, records, strict=True):
        for line in measure_again(cells, options.tables, options.data):
            print(line, flush=True)
            path.write_text(text_of(cells), encoding="utf-8")
    every = [cell for cells in records for cell in cells]
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(page_with(text, every), encoding="utf-8")


if __name__ == "__main__":
    main()
