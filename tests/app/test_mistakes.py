"""Mistakes at the command line: one line that says how to mend them, and nothing written."""

import math
from pathlib import Path

import pytest
import torch

import nerf_posenc
import train_fit
from nerf_posenc_app.values.blocks import Evaluation
from tests.mistakes import require_one_line
from tests.small import SMALL_RUN

pytestmark = pytest.mark.usefixtures("own_folder")


# A command line, and words of its error.
MISTAKES = """
compare => needs one run folder or more
compare folder => not the folder of a complete run
--image dragon => give an image file, or a name:
--image spheres => spheres is a scene: --scene spheres
--scene cat => cat is an image: --image cat
--image cat --epochs 5 => did you mean --steps?
--image cat --learning-rate 0.1 => did you mean --lr?
--image cat --L 5 => did you mean --bands?
--image cat --encodings none,fourier => names with spaces between them: none fourier
find llama => python -m nerf_posenc_audit find
--scene dragon => give a folder of posed images or a built-in scene
--scene folder => folder contains no posed images
--image cat --scene spheres => give one of them
--scene spheres --compile => --compile is for --image, not for --scene
--scene spheres --encodings siren => takes none, fourier
--scene spheres --test-views 0 => --test-views must be 1 or more; got 0
--video 1 => must be 2 or more, or 0 for none
--image folder => folder is a folder; give the path of an image in it
--image text.png => save it again as PNG
--image truncated.png => image file is truncated
--bands 0 => --bands must be 1 to 100; got 0
--bands 101 => got 101
--size 0 => --size must be 1 or more
--lr -1 => --lr must be above 0
--seed -1 => --seed must be 0 to 4,294,967,295
--encodings gaussian --sigma 0 => --sigma must be above 0
--sigma auto --encodings none => leave --sigma out
--encodings auto fourier => auto stands alone
--encodings auto --scene spheres => no encoding 'auto'
--encodings auto siren => auto stands alone
--image cat --sigma 3 => fit gaussian too, or leave --sigma out
--scene spheres --encodings none --bands 4 => fit fourier too
--image cat --image dog => given more than once
--sigma auto --scene spheres => --sigma takes a number, not 'auto'
--bandz 3 => did you mean --bands? (see
--sene spheres => did you mean --scene? (see
--encodings magic => no encoding 'magic'
--encodings => needs one name or more
--encodings none none => names an encoding twice
--device cuda:99 => not on this machine; available are
--device abacus => --device abacus is unknown
--out text.png/run => Not a directory; use --out
--out text.png => --out text.png is a file
--out /proc/run => cannot write to the folder
compair runs/a => no command 'compair'; did you mean compare?
cat.png => to fit it, --image cat.png
render => PATH is missing: Run folder, or the file of a saved fit. (see train_fit.py render --help)
--bands six => --bands takes integers or auto, not 'six' (see train_fit.py --image --help)
--lr high => --lr takes a number, not 'high'
--save-every often => --save-every takes a number, not 'often'
--bands 4 x => --bands takes integers or auto, not 'x'
--bands 4 auto => --bands takes integers or auto, not both
--quiet=1 => --quiet takes no value
render run --crop 1 2 3 => --crop needs 4 values
--precision half => --precision takes one of 'auto', 'float32', 'bfloat16', not 'half'
--steps 1.5 => --steps takes an integer, not '1.5'
--resume => --resume needs a value
--steps 6 10 => an option takes one value, unless --help shows several
--scene spheres --bands 6 10 => '10' belongs to no option
--scene text.png => text.png has no poses: give a folder, or one of transforms_train.json
compare nowhere => there is no folder nowhere
--image https://example.org/a.png => https://example.org/a.png: download it first
--scene spheres --field auto --encodings fourier => leave --encodings out
--scene spheres --field auto --bands 4 => this run fits hash; fit fourier too, or leave --bands
--image cat --encodings learned => no encoding 'learned'; there are auto, finer, fourier, gauss
--scene spheres --field nerf --encodings siren => --field nerf takes none, fourier, not siren
--scene spheres --field mlp --exposure => --exposure is for --field proposal or auto
--scene spheres --field mlp --refine-poses => --refine-poses is for --field proposal or auto
--seconds 5 --steps 10 => give one of them
--seconds 0 => --seconds must be above 0; got 0
--seconds inf => --seconds must be above 0; got inf
--references bicubic => bicubic is for --held-out; add it
--references soup => no reference soup; known are bilinear
--encoding 3 => did you mean --encodings? (see
--encodings gausian => did you mean gaussian?
--scene spheres --encodings gausian => did you mean gaussian?
render run --encodings hash => did you mean --encoding? (see train_fit.py render --help)
--scene spheres --field nerv => no field 'nerv'; did you mean nerf?
--scene spheres --field nerf --encodings hash => use --field mlp
--sequence empty.txt => has 0 characters
--sequence binary.txt => is not UTF-8 text
--sequence nulls.txt => is a binary file
--sequence short.txt => use a longer text or a smaller --context
--sequence text.txt --context 4096 => use a longer text or a smaller --context
--sequence text.txt --context 3 => --context must be 4 to 4,096; got 3
--sequence text.txt --width 18 => --width must be a multiple of 4; got 18
--sequence text.txt --bands 4 => --bands is for --image
--sequence text.txt --encodings fourier => --sequence takes none and sinusoidal
--sequence text.txt --encodings rotary => --sequence takes none and sinusoidal
--sequence folder => it is a folder
--sequence novel => there is no such file
--sequence text.txt --image cat => give one of
--sequence topics --turntable 3 => --turntable is for --scene, not for --sequence
--image cat --context 8 => --context is for --sequence, not for --image
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_gets_one_line_status_2_and_writes_nothing(
    mistake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    require_one_line(mistake, capsys)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_cuda_device_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--device", "cuda"]) == 2
    assert "not on this machine; available are: " in capsys.readouterr().err


def test_a_rate_that_breaks_the_fit_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_fit.main(["--lr", "1e30", "--out", "run", *SMALL_RUN]) == 2
    assert "--lr must be" in capsys.readouterr().err
    overflow = Evaluation({"psnr_db": math.nan}, [])
    monkeypatch.setattr("nerf_posenc_app.kinds.image.image.ImageKind.evaluate", lambda *_: overflow)
    assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 1
    assert "its weights overflow; use a smaller learning rate (--lr)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "size", [["--width", "1000000"], ["--depth", "100000"], ["--width", "16000", "--depth", "200"]]
)
def test_a_network_of_too_many_weights_is_refused_before_it_is_made(
    size: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_fit.main([*size, "--encodings", "none", "--out", "run", "--size", "8"]) == 2
    assert size[0] in capsys.readouterr().err
    assert not Path("run").exists()


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--version"]) == 0
    assert nerf_posenc.__version__ in capsys.readouterr().out
