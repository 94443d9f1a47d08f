"""Requests of signals: end the current fit, or the run once the fit is saved."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path


class Stopped(Exception):  # noqa: N818 - no error, but a request.
    """The run was asked to end; what it fitted is saved."""


class Stop:
    """Requests to end early.

    A first Ctrl-C ends the fit in progress; a second one, or a request of the system, ends the run
    as soon as that fit is saved.

    Attributes:
        folder: run folder of the run, once there is one that can be resumed.
        encodings: encodings of files of the user's, which resuming it needs: ``FILE.py:NAME``.
        is_training: whether a fit is in progress, which ends at its next step.
        ends_run: whether the run shall end.
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.encodings: Sequence[str] = ()
        self.is_training = self.ends_run = self._ends_fit = self._was_requested = False

    @property
    def is_requested(self) -> bool:
        """Whether the fit in progress shall end."""
        return self._ends_fit

    def request(self, *, run: bool = False) -> None:
        """Ask for the end of the fit, or of the run, as a second request does in any case."""
        self.ends_run = run or self._was_requested
        self._ends_fit = self._was_requested = True

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Mark that a fit is in progress.

        Raises:
            Stopped: As it ends, if the run shall end.
        """
        self._ends_fit, self.is_training = False, True
        try:
            yield
        finally:
            self.is_training = False
        if self.ends_run:
            raise Stopped
