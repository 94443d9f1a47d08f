"""Fits in progress as TensorBoard reads them."""

from pathlib import Path

import pytest

import train_fit
from tests.optional import needs
from tests.small import SMALL_RUN, quick_report

pytestmark = pytest.mark.usefixtures("own_folder")


def test_scores_and_previews_of_every_fit_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator as events  # type: ignore[import-untyped]

    monkeypatch.chdir(tmp_path)
    few = "--width 8 --depth 1 --size 24 --video 0 --quiet --out run --tensorboard"
    assert train_fit.main(["--image", "cat", "--steps", "30", *few.split()]) == 0
    for name in ("none", "fourier"):
        log = events.EventAccumulator(f"run/tensorboard/{name}")
        log.Reload()
        scores = log.Scalars("batches/psnr_db")
        assert scores[-1].step == 30
        assert 0 < scores[-1].value < 60
        rates = [rate.value for rate in log.Scalars("learning_rate")]
        assert rates[-1] < rates[0]
        image = log.Images("preview/0")[0]
        assert (image.width, image.height) == (24, 16)


@pytest.mark.parametrize("link", ["tensorboard", "tensorboard/none"])
def test_no_log_is_written_through_a_link(link: str, capsys: pytest.CaptureFixture[str]) -> None:
    needs("tensorboard")
    words = [*SMALL_RUN, "--tensorboard", "--encodings", "none", "--out", "run", "--overwrite"]
    Path("run", link).parent.mkdir(parents=True)
    Path("elsewhere").mkdir()
    Path("run", link).symlink_to(Path("elsewhere").resolve())
    with quick_report():
        assert train_fit.main(["--image", "cat", *words]) == 0
    assert not list(Path("elsewhere").iterdir())
    assert f"run/{link} is a link, which no run follows" in capsys.readouterr().err
