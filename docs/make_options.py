"""Write the page of all options from what the options say of themselves.

python -m docs.make_options
"""

import ast
import inspect
from pathlib import Path

from app.sequence_options import SequenceOptions

from app.options import Options

PAGE = Path(__file__).parent / "options.md"


def described(kind: type) -> list[tuple[str, str]]:
    """Name and description of each option of a dataclass, in its order."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    found = []
    for field, after in zip(body.body, [*body.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        name = field.target.id
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found.append((name, " ".join(str(after.value.value).split())))
    return found


def page() -> str:
    """The page as Markdown."""
    from app.options import ENCODING_HELP

    lines = [
        "# Options",
        "",
        "All options of `train_fit.py`, with what *None*, the default of some, stands for. "
        "`train_fit.py --help` is the short form; `compare`, `render` and `export` have a "
        "`--help` of their own.",
        "",
    ]
    entries = [*described(Options), ("encodings", ENCODING_HELP), *described(SequenceOptions)]
    for name, text in entries:
        lines += [f"`--{name.replace('_', '-')}`", f":   {text}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
