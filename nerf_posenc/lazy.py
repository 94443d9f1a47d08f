"""Names of a package that are imported when they are first used (Scientific Python's SPEC 1).

A package lists what it exports in ``__init__.pyi``, where type checkers look too:

```python
from nerf_posenc.encoders.fourier import FourierEncoder as FourierEncoder
```

So importing one encoder loads that encoder and what it needs, whatever else the package exports.
"""

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_exports(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package, and its ``__all__``.

    Args:
        package: ``__name__`` of the package.
        file: its ``__file__``; the stub beside it lists the names.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    module_of = {
        alias.asname or alias.name: node.module or ""
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name]), name)
        # The next use of the name does not come here.
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *module_of}), list(module_of)
