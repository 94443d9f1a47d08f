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
    """

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.encodings: Sequence[str] = ()
        self.is_training = False
        self._num_requests = 0
        self._ends_fit = False
        self._ends_run = False

    @property
    def is_requested(self) -> bool:
        """Whether the fit in progress shall end."""
        return self._ends_fit or self._ends_run

    def request(self, *, run: bool = False) -> None:
        """Ask for the end of the fit, or of the run, as a second request does in any case."""
        self._num_requests += 1
        self._ends_fit = True
        self._ends_run = run or self._num_requests > 1

    @property
    def ends_run(self) -> bool:
        """Whether the run shall end."""
        return self._ends_run

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Mark that a fit is in progress.

        Raises:
            Stopped: As it ends, if the run shall end.
        """
        self._ends_fit = False
        self.is_training = True
        try:
            yield
        finally:
            self.is_training = False
        if self._ends_run:
            raise Stopped
