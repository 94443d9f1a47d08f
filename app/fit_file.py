"""The file of one fit: saved every so often and as it ends, read as a run is resumed."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.parsing import PROGRAM
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint

DEFAULT_SECONDS = 60.0
"""Between two saves of a fit."""


class SaveError(Exception):
    """A fit or a run folder cannot be written; the message says why."""


class FitFile:
    """Where one fit is saved.

    Args:
        path: of the checkpoint; its folder exists.
        seconds: between two saves.
        about: the run that the fit belongs to, saved with it.
    """

    def __init__(
        self,
        path: Path,
        *,
        seconds: float = DEFAULT_SECONDS,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self.seconds = seconds
        self.about = about or {}
        self._saved_at = time.monotonic()
        self._has_warned = False

    def read(self) -> dict[str, Any] | None:
        """Read what was saved; None if nothing was.

        Raises:
            CheckpointError: If the file is damaged or of another version.
            OSError: If it cannot be read.
        """
        return load_checkpoint(self.path) if self.path.exists() else None

    def saved_steps(self) -> tuple[int, int] | None:
        """Steps taken and steps in all of the saved fit; None if nothing was saved."""
        fit = self._summary().get("fit")
        if not isinstance(fit, dict):
            return None
        taken, whole = fit.get("step"), fit.get("num_steps")
        return (taken, whole) if isinstance(taken, int) and isinstance(whole, int) else None

    def is_complete(self) -> bool:
        """Whether a fit with all its steps was saved."""
        steps = self.saved_steps()
        return steps is not None and steps[0] == steps[1]

    def saved_batch_size(self) -> int | None:
        """Batch size of the saved fit, if it is not the run's; None if nothing was saved."""
        batch_size = self._summary().get("halved_batch_size")
        return batch_size if isinstance(batch_size, int) and batch_size > 0 else None

    def _summary(self) -> dict[str, Any]:
        """What was saved, without its tensors; nothing if it cannot be read."""
        try:
            return load_checkpoint(self.path, with_tensors=False)
        except (OSError, CheckpointError):
            return {}

    @property
    def is_due(self) -> bool:
        """Whether the last save was long enough ago."""
        return time.monotonic() - self._saved_at >= self.seconds

    def write(self, values: Mapping[str, Any]) -> None:
        """Save the fit.

        Raises:
            SaveError: If it cannot be written; what was saved before is kept.
        """
        try:
            save_checkpoint(self.path, {**values, "run": self.about})
        except OSError as error:
            reason = error.strerror or error
            raise SaveError(f"cannot write {self.path}: {reason}") from None
        finally:
            self._saved_at = time.monotonic()

    def try_to_write(self, values: Mapping[str, Any]) -> None:
        """Save a fit in progress; if that fails, warn once and let it go on."""
        try:
            self.write(values)
        except SaveError as error:
            if not self._has_warned:
                print(f"{PROGRAM}: warning: {error}; the fit goes on", file=sys.stderr)
            self._has_warned = True
