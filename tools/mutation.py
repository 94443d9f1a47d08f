"""Mutation testing: change one operator or number of the library; a test must fail.

    pip install -c constraints.txt -e .[mutation]
    python -m tools.mutation [--sample 300] [--seed 0] [--workers 2] [--only training]

cosmic-ray makes the mutants; each is tried in a copy of the sources, in a process that has torch
imported already, until a test fails: by the tests of its folder that run the changed line, which
coverage tells beforehand, or by all of them for a line that runs as the module is imported. Prints
the share that was killed, by folder, and every survivor. Strings, annotations, class decorators
and messages of errors are not mutated.
"""

import argparse
import ast
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import beartype  # noqa: F401 - as the next: imported before the processes fork.
import coverage
import hypothesis  # noqa: F401
import jaxtyping  # noqa: F401
import numpy  # noqa: F401
import pytest
import torch
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOT = Path(__file__).parents[1]

# Folders and the tests that try their mutants.
TESTS = {
    "core": ["tests/core", "tests/encoders", "tests/positional", "tests/test_defaults.py"],
    "encoders": ["tests/encoders", "tests/recipes", "tests/core", "tests/test_defaults.py"],
    "positional": ["tests/positional", "tests/recipes", "tests/encoders", "tests/test_defaults.py"],
    "metrics": ["tests/metrics"],
    "radiance": ["tests/radiance", "tests/test_fits.py", "tests/test_defaults.py"],
    "training": ["tests/training", "tests/test_defaults.py"],
}
_BARE_STAR = re.compile(r"(^|[(,])\s*\*,")
# Folders whose tests are run together, since they share most of them.
_GROUPS = (("core", "encoders", "positional"), ("metrics", "radiance", "training"))

# One replacement for each place, where cosmic-ray has ten.
_OPERATORS = [
    "NumberReplacer", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "AddNot", "ReplaceUnaryOperator_Delete_USub",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceBreakWithContinue", "ZeroIterationForLoop",
    "ReplaceBinaryOperator_Add_Sub", "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBinaryOperator_Mul_Div", "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_FloorDiv",
    "ReplaceBinaryOperator_Pow_Mul", "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd", "ReplaceBinaryOperator_LShift_RShift",
    "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceComparisonOperator_Lt_LtE", "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is",
]  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        folder: of the library.
        module: path of the module, from the root.
        operator: cosmic-ray's name.
        occurrence: which place in the module.
        line: of the place.
    """

    folder: str
    module: str
    operator: str
    occurrence: int
    line: int


def unmutated_lines(source: str) -> set[int]:
    """Lines of annotations without a default, errors, imports, docstrings, class decorators."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            annotations = [a.annotation for a in every] + [node.returns]
            defaults = [*arguments.defaults, *arguments.kw_defaults]
            with_default = {default.lineno for default in defaults if default is not None}
            lines |= {part.lineno for part in annotations if part is not None} - with_default
            continue
        if isinstance(node, ast.ClassDef):
            lines |= {decorator.lineno for decorator in node.decorator_list}
            continue
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.Assert):
            assert isinstance(node, ast.stmt)
            lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return lines


def all_mutants() -> Iterator[Mutant]:
    """All mutants of the library."""
    for folder in TESTS:
        for path in sorted((ROOT / "nerf_posenc" / folder).rglob("*.py")):
            module = str(path.relative_to(ROOT))
            if path.name == "__init__.py":
                continue
            source = path.read_text(encoding="utf-8")
            skipped_lines = unmutated_lines(source)
            # A bare star in a signature looks like a product.
            with_star = {i for i, t in enumerate(source.splitlines(), 1) if _BARE_STAR.search(t)}
            tree = get_ast(source)
            for name in _OPERATORS:
                operator = get_operator(f"core/{name}")()
                places = (p for node in ast_nodes(tree) for p in operator.mutation_positions(node))
                skips = skipped_lines | (with_star if "_Mul_" in name else set())
                for occurrence, ((line, _), _) in enumerate(places):
                    if line not in skips:
                        yield Mutant(folder, module, name, occurrence, line)


def covering_tests(folders: tuple[str, ...], copy: Path) -> dict[tuple[str, int], list[str]]:
    """Run the tests of folders; return the tests that run each line of their modules.

    Raises:
        RuntimeError: If a test fails on the sources as they are.
    """
    started = time.monotonic()
    data = copy / f".coverage.{folders[0]}"
    tests = [f"nerf_posenc/{folder}" for folder in folders]
    tests += dict.fromkeys(path for folder in folders for path in TESTS[folder])
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *tests]
    cover = [part for folder in folders for part in ("--cov", f"nerf_posenc/{folder}")]
    cover += ["--cov-context", "test", "--cov-report", ""]
    done = subprocess.run(
        [*command, *cover], cwd=copy, env={**os.environ, "COVERAGE_FILE": str(data)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the tests of {folders} fail as they are: {done.stdout[-2000:]}")
    covered = coverage.CoverageData(str(data))
    covered.read()
    tests_by_line: dict[tuple[str, int], list[str]] = {}
    for file in covered.measured_files():
        for line, contexts in covered.contexts_by_lineno(file).items():
            names = sorted({c.rpartition("|")[0] for c in contexts} - {""})
            tests_by_line[str(Path(file).resolve().relative_to(copy.resolve())), line] = names
    print(f"{', '.join(folders)}: tests in {time.monotonic() - started:.0f} s", flush=True)
    return tests_by_line


def tests_of(mutant: Mutant, covering: dict[tuple[str, int], list[str]]) -> list[str]:
    """Tests that try a mutant."""
    own = (f"nerf_posenc/{mutant.folder}", *TESTS[mutant.folder])
    covers = covering.get((mutant.module, mutant.line), [])
    names = [name for name in covers if name.startswith(own)]
    return names or [mutant.module, *TESTS[mutant.folder]]


def try_mutant(mutant: Mutant, tests: list[str], copy: Path, seconds: float) -> str:
    """Try a mutant; return killed, timeout, survived or broken."""
    path = copy / mutant.module
    source = path.read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(f"core/{mutant.operator}")(), mutant.occurrence)
    if changed is None or changed == source:
        return "broken"
    path.write_text(changed, encoding="utf-8")
    status = run_tests(tests, copy, seconds)
    path.write_text(source, encoding="utf-8")
    if status is None:
        return "timeout"
    return "survived" if status == 0 else "killed"


def run_tests(tests: list[str], copy: Path, seconds: float) -> int | None:
    """Run tests in a fork of this process; return their exit status, None after so many seconds."""
    child = os.fork()
    if child == 0:
        status = 99
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            os.chdir(copy)
            sys.path[:0] = [str(copy)]
            # Those of the copy are to be imported.
            for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
                del sys.modules[name]
            # What was imported before the fork cannot be rewritten, and need not be.
            ignored = "ignore::pytest.PytestAssertRewriteWarning"
            options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-W", ignored]
            status = int(pytest.main([*options, *tests]))
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number, status = os.waitpid(child, os.WNOHANG)
        if number:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


@contextlib.contextmanager
def copied_sources() -> Iterator[Path]:
    """A copy of the sources in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", "runs", "site", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=ignored)
        yield copy


def work(
    mutants: list[Mutant], covering: dict[tuple[str, int], list[str]], seconds: float, log: Path
) -> None:
    """Try mutants one after the other in a copy of the sources, and log what became of them."""
    with copied_sources() as copy:
        for mutant in mutants:
            started = time.monotonic()
            outcome = try_mutant(mutant, tests_of(mutant, covering), copy, seconds)
            line = f"{outcome}\t{mutant.folder}\t{mutant.module}:{mutant.line}\t{mutant.operator}"
            with log.open("a", encoding="utf-8") as file:
                file.write(f"{line}#{mutant.occurrence}\t{time.monotonic() - started:.0f}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--sample", type=int, default=300, help="mutants to try; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=sorted(TESTS))
    parser.add_argument("--seconds", type=float, default=150.0, help="limit for one mutant")
    parser.add_argument("--log", type=Path, default=Path("mutants.tsv"))
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    mutants = [m for m in all_mutants() if options.only in (None, m.folder)]
    total = len(mutants)
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, total))
    print(f"{len(mutants)} of {total} mutants", flush=True)
    options.log.unlink(missing_ok=True)
    covering: dict[tuple[str, int], list[str]] = {}
    wanted = {mutant.folder for mutant in mutants}
    groups = [tuple(f for f in group if f in wanted) for group in _GROUPS]
    with copied_sources() as copy, ThreadPoolExecutor(options.workers) as pool:
        for lines in pool.map(lambda group: covering_tests(group, copy), filter(None, groups)):
            covering |= lines
    children = []
    for worker in range(options.workers):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(KeyboardInterrupt):
                own = mutants[worker :: options.workers]
                work(own, covering, options.seconds, options.log.resolve())
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return report(options.log)


def report(log: Path) -> int:
    """Print the share of killed mutants by folder, and the survivors; 0 if 90% were killed."""
    rows = [line.split("\t") for line in log.read_text(encoding="utf-8").splitlines()]
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for outcome, folder, *_ in rows:
        counts[folder][outcome] += 1
        counts["all"][outcome] += 1
    for folder, by_outcome in sorted(counts.items()):
        tried = sum(by_outcome.values()) - by_outcome["broken"]
        killed = by_outcome["killed"] + by_outcome["timeout"]
        print(f"{folder:12} {killed:4} of {tried:4} killed, {killed / max(1, tried):.0%}")
    for outcome, _, place, operator, _ in sorted(rows, key=lambda row: row[2]):
        if outcome == "survived":
            print(f"survived: {place} {operator}")
    total = counts["all"]
    tried = sum(total.values()) - total["broken"]
    return 0 if total["killed"] + total["timeout"] >= 0.9 * tried else 1


if __name__ == "__main__":
    sys.exit(main())
