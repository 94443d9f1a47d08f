"""Tests of what is optional: skipped without its packages, unless the run must have them."""

import importlib.util
import os

import pytest


def needs(*packages: str) -> None:
    """Skip the test or the module that calls it where a package is not installed.

    With ``TEST_OPTIONAL=1`` in the environment it fails instead, so that no machine that is meant
    to have the packages skips its tests unseen.

    Args:
        *packages: names by which the packages are imported.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = f"needs {', '.join(missing)}"
    if os.environ.get("TEST_OPTIONAL") == "1":
        pytest.fail(f"{reason}, and TEST_OPTIONAL=1 allows no skip", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
