"""The command line, as a person meets it."""

import csv
import importlib.util
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import train_fit
from nerf_posenc.core.checks import require_coordinates
from nerf_posenc.core.encoder import Encoder
from nerf_posenc.training.recipes import ENCODINGS, NETWORKS, EncodingRecipe
from nerf_posenc_app.report.video import write_video
from tests.small import SMALL_RUN, write_noise

pytestmark = pytest.mark.usefixtures("own_folder")

ROOT = Path(__file__).parents[2]


def fit_of(metrics: dict[str, Any], encoding: str) -> dict[str, Any]:
    fit: dict[str, Any] = next(f for f in metrics["fits"] if f["encoding"] == encoding)
    return fit


@pytest.mark.usefixtures("figures")
def test_a_run_prints_a_table_and_leaves_all_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*SMALL_RUN, "--video", "4"]
    assert train_fit.main(["--image", "cat.png", "--bands", "4", "--out", "run", *options]) == 0
    printed = capsys.readouterr()
    assert "cat.png, which ships with the program" in printed.out
    rows = [line.split() for line in printed.out.splitlines()]
    none, fourier = (next(r for r in rows if r[:1] == [name]) for name in ("none", "fourier"))
    assert float(fourier[2]) - float(none[2]) == pytest.approx(float(fourier[5]), abs=0.011)
    assert "step" in printed.err
    assert "PSNR" in printed.err
    names = {"comparison.png", "fourier.png", "metrics.json", "none.png", "report.html"}
    left = {path.name for path in Path("run").iterdir() if path.name != ".lock"}
    saved = {"fits", "run.json", "original.png"}
    assert left - {"learning.mp4", "learning.webp"} == names | saved
    assert len(left) == len(names | saved) + 1
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["config"]["num_bands"] == 4
    assert fit_of(metrics, "fourier")["lr"] == 0.05
    assert metrics["config"]["seed"] == 0
    assert metrics["command"].startswith("python train_fit.py --image cat.png --bands 4")
    assert metrics["versions"]["torch"] == torch.__version__
    for fit in metrics["fits"]:
        assert fit["steps"] == 30
        image = np.asarray(Image.open(f"run/{fit['encoding']}.png")).astype(float) / 255
        original = np.asarray(Image.open("run/original.png")).astype(float) / 255
        eight_bit_psnr = -10 * np.log10(((image - original) ** 2).mean())
        assert fit["psnr_db"] == pytest.approx(eight_bit_psnr, abs=0.1)


def test_quiet_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--quiet", "--out", "run", *SMALL_RUN]) == 0
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


@pytest.mark.slow
@pytest.mark.usefixtures("no_hull", "no_report")
def test_runs_never_share_a_folder_unless_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["--quiet", *SMALL_RUN]) == 0
    assert train_fit.main(["--quiet", *SMALL_RUN]) == 0
    assert len(list(Path("runs").iterdir())) == 2
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("dear")
    assert train_fit.main(["--quiet", "--out", "mine", *SMALL_RUN]) == 2
    assert "contains files already" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["thesis.txt"]
    assert train_fit.main(["--quiet", "--out", "mine", "--overwrite", *SMALL_RUN]) == 0
    assert Path("mine/thesis.txt").read_text() == "dear"


@pytest.mark.usefixtures("no_hull", "no_report")
def test_bands_far_above_nyquist_are_warned_of_with_the_number_that_suffices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 24 pixels: half a cycle per pixel is pi * 12, between octaves 3 and 4.
    assert train_fit.main(["--bands", "64", "--out", "run", *SMALL_RUN]) == 0
    assert "--bands 4 suffices" in capsys.readouterr().err
    # 12 of them are fitted.
    held_out = ["--held-out", "--bands", "6", "--encodings", "fourier", "--out", "run1"]
    assert train_fit.main([*held_out, *SMALL_RUN]) == 0
    assert "--bands 3 suffices" in capsys.readouterr().err
    assert train_fit.main(["--bands", "6", "--out", "run2", *SMALL_RUN]) == 0
    assert "suffices" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        "relu",
        "siren",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("finer", "gauss", "wire", "mfn")),
    ],
)
@pytest.mark.usefixtures("no_hull", "no_report")
def test_every_network_and_encoding_is_fitted(network: str) -> None:
    names = ["none", "fourier", "gaussian", "hash"] if network == "relu" else [network]
    options = ["--encodings", *names, "--out", "run", "--quiet"]
    options += [*SMALL_RUN, "--steps", "120", "--width", "32", "--batch-size", "576"]
    assert train_fit.main(options) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["encoding"] for fit in metrics["fits"]] == names
    original = np.asarray(Image.open("run/original.png")) / 255
    flat_db = -10 * np.log10(((original - original.mean((0, 1))) ** 2).mean())
    # One constant color, the mean, is what a network that learns nothing else predicts.
    assert all(fit["psnr_db"] > flat_db + 1.5 for fit in metrics["fits"])
    optimizers = {fit["optimizer"] for fit in metrics["fits"]}
    assert optimizers == {NETWORKS[network].optimizer}
    assert {fit["network"] for fit in metrics["fits"]} == {network}
    # 24 pixels: 6 cycles per unit at Nyquist.
    assert metrics["config"]["sigma"] == pytest.approx(0.54)


@pytest.mark.usefixtures("no_hull", "figures")
def test_a_scene_is_fitted_and_leaves_its_views(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--scene", "spheres", "--size", "12", "--steps", "10", "--width", "16"]
    options += ["--depth", "1", "--turntable", "3", "--video", "3", "--test-views", "2"]
    options += ["--out", "run"]
    assert train_fit.main(options) == 0
    printed = capsys.readouterr()
    assert "built-in scene spheres" in printed.out
    assert "48 to fit, 2 to evaluate on" in printed.out
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert metrics["data"]["title"] == "spheres"
    assert fit_of(metrics, "fourier")["lr"] == 0.02
    for fit in metrics["fits"]:
        assert len(fit["views"]) == 2
        mean = sum(view["psnr_db"] for view in fit["views"]) / 2
        assert fit["psnr_db"] == pytest.approx(mean)
        truth = [np.asarray(Image.open(f"run/truth/view_00{i}.png")) / 255 for i in range(2)]
        shown = [np.asarray(Image.open(f"run/{fit['encoding']}/view_00{i}.png")) for i in range(2)]
        for a, b, view in zip(truth, shown, fit["views"], strict=True):
            measured = -10 * np.log10(((a - b / 255) ** 2).mean())
            assert view["psnr_db"] == pytest.approx(measured, abs=0.1)
    assert list(Path("run").glob("learning.*"))
    videos = sorted(path.name for path in Path("run").glob("turntable_*"))
    assert [video.split(".")[0] for video in videos] == ["turntable_fourier", "turntable_none"]
    assert Path("run/comparison.png").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_hull", "no_report")
def test_sigma_is_chosen_from_the_image(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--encodings",
        "gaussian",
        "--sigma",
        "auto",
        "--out",
        "run",
        *SMALL_RUN,
        "--size",
        "9",
    ]
    assert train_fit.main(options) == 0
    chosen = json.loads(Path("run/metrics.json").read_text())["config"]["sigma"]
    assert f"sigma    {chosen:.2f} cycles per unit" in capsys.readouterr().out


@pytest.mark.usefixtures("no_hull", "no_report")
def test_without_bands_an_image_is_fitted_with_a_hash_grid_too() -> None:
    assert train_fit.main(["--out", "run", "--quiet", *SMALL_RUN]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["encoding"] for fit in metrics["fits"]] == ["none", "fourier", "hash"]
    # 24 pixels: 4 bands up to the Nyquist frequency, and two to spare.
    assert metrics["config"]["num_bands"] == 4


@pytest.mark.slow
@pytest.mark.usefixtures("figures")
def test_figures_for_print_are_written_when_asked_for() -> None:
    assert (
        train_fit.main(
            ["--bands", "3", "--out", "run", "--figures", "--quiet", *SMALL_RUN, "--video", "0"]
        )
        == 0
    )
    names = ("training_curves", "frequency_content")
    for name in names:
        root = ElementTree.parse(f"run/figures/{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert float(root.attrib["width"]) > 400
    assert {path.stem for path in Path("run/figures").iterdir()} == set(names)
    assert not list(Path("run").glob("learning.*"))


@pytest.mark.slow
def test_runs_are_compared_on_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a", "0"), ("b", "1")):
        assert train_fit.main(["--out", name, "--seed", seed, "--quiet", *SMALL_RUN]) == 0
    assert train_fit.main(["compare", "a", "b", "--out", "both.html"]) == 0
    printed = capsys.readouterr().out
    for name in ("a", "b"):
        for fit in json.loads(Path(name, "metrics.json").read_text())["fits"]:
            assert f"{name}: {fit['encoding']}" in printed
            assert f"{fit['psnr_db']:.2f}" in printed
    rows = {line.split("  ")[0]: line.split() for line in printed.splitlines() if ": " in line}
    assert rows["a: none"][-1] == rows["b: none"][-1] == "-"
    gained = json.loads(Path("b/metrics.json").read_text())["fits"][1]["gain_db"]
    assert float(rows["b: fourier"][-1]) == pytest.approx(gained, abs=0.006)
    page = Path("both.html").read_text()
    # Both are of one image, which is there once beside its four fits.
    assert page.count('data-name="original"') == 1
    assert page.count('data-name="a: fourier"') == 1
    Path("deep").mkdir()
    shutil.copytree("b", "deep/a")
    assert train_fit.main(["compare", "a", "deep/a", "--out", "same.html"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("/a: fourier") == 2
    row = next(line for line in printed.splitlines() if "deep/a: fourier" in line)
    assert float(row.split()[-1]) == pytest.approx(gained, abs=0.006)
    assert train_fit.main(["compare", "a", "./a", "--out", "twice.html"]) == 2
    assert "given twice" in capsys.readouterr().err
    assert train_fit.main(["compare", "a", "--out", "page.pdf"]) == 2
    assert "--out page.pdf: the page is written as .html" in capsys.readouterr().err
    before = Path("both.html").read_bytes()
    assert train_fit.main(["compare", "a", "--out", "both.html"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert Path("both.html").read_bytes() == before


def test_videos_are_webps_without_an_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    video = write_video(Path("video"), torch.rand(4, 8, 9, 3))
    assert video.suffix == ".webp"
    with Image.open(video) as image:
        assert image.size == (9, 8)
        assert getattr(image, "n_frames", 1) == 4


@pytest.mark.slow
@pytest.mark.parametrize("field", ["nerf", "mip"])
@pytest.mark.usefixtures("no_hull", "no_report")
def test_the_published_fields_are_fitted(field: str) -> None:
    options = [
        "--scene",
        "spheres",
        "--field",
        field,
        "--size",
        "8",
        "--steps",
        "3",
        "--width",
        "8",
    ]
    options += [
        "--batch-size",
        "16",
        "--turntable",
        "0",
        "--video",
        "0",
        "--test-views",
        "1",
        "--quiet",
    ]
    assert train_fit.main([*options, "--out", "run"]) == 0
    assert len(json.loads(Path("run/metrics.json").read_text())["fits"]) == 2


class Cubes(Encoder):
    """A toy encoding: the coordinates and their cubes."""

    def __init__(self, in_dim: int) -> None:
        super().__init__(in_dim, 2 * in_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        require_coordinates(x, self.in_dim)
        return torch.cat([x, x**3], dim=-1)


@pytest.mark.parametrize(
    "name",
    [
        "triangle-wave",
        "a: würfel/2%",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("two words", "fourier-8", "..")),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_an_encoding_may_have_any_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = EncodingRecipe(title="Cubes", build=lambda model, _: Cubes(model.in_dim))
    monkeypatch.setitem(ENCODINGS, name, recipe)
    small = ["--size", "12", "--steps", "5", "--batch-size", "50", "--video", "2", "--quiet"]
    names = ["--encodings", "none", name]
    assert train_fit.main([*names, *small, "--out", "run"]) == 0
    metrics = json.loads(Path("run/metrics.json").read_text())
    assert [fit["name"] for fit in metrics["fits"]] == ["none", name]
    assert train_fit.main(["render", "run", "--encoding", name, "--quiet"]) == 0
    if importlib.util.find_spec("onnxscript") is not None:
        assert train_fit.main(["export", "run", "--encoding", name]) == 0
    # Only the report is made again: both fits are found.
    Path("run/metrics.json").unlink()
    assert train_fit.main(["--resume", "run", "--quiet"]) == 0
    again = json.loads(Path("run/metrics.json").read_text())
    assert [f["psnr_db"] for f in again["fits"]] == [f["psnr_db"] for f in metrics["fits"]]
    assert train_fit.main(["compare", "run", "--out", "page.html", "--csv", "table.csv"]) == 0
    with Path("table.csv").open(newline="", encoding="utf-8") as file:
        assert [row["encoding"] for row in csv.DictReader(file)] == ["none", name]


@pytest.mark.usefixtures("own_folder", "no_report")
def test_an_encoder_that_cannot_be_built_ends_its_fit_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("only3d.py").write_text(
        "from nerf_posenc.core import Encoder\n"
        "class Only3D(Encoder):\n"
        "    def __init__(self, in_dim):\n"
        "        if in_dim != 3:\n"
        "            raise ValueError(f'Only3D takes 3 coordinates, not {in_dim}')\n"
        "        super().__init__(3, 3)\n"
        "    def forward(self, x):\n"
        "        return x\n"
    )
    small = ["--size", "8", "--steps", "2", "--video", "0", "--quiet", "--out", "run"]
    assert train_fit.main(["--encodings", "only3d.py:Only3D", "none", *small]) == 1
    assert capsys.readouterr().err == (
        "train_fit.py: error: Only3D: the model cannot be built: ValueError: Only3D takes 3 "
        "coordinates, not 2\n"
    )
    fits = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert [fit["name"] for fit in fits] == ["none"]


def test_one_pixel_is_fitted(capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("RGB", (1, 1), (200, 100, 50)).save("dot.png")
    assert train_fit.main(["--image", "dot.png", "--steps", "20", "--width", "8"]) == 0
    assert "dot.png, 1 x 1" in capsys.readouterr().out


@pytest.mark.slow
def test_the_default_run_recovers_the_cat() -> None:
    # Smaller and with fewer steps than the README's line, which is run by hand.
    short = ["--size", "64", "--steps", "80", "--batch-size", "2048", "--video", "0"]
    line = ["--image", "cat.png", "--bands", "10", "--out", "run", "--quiet"]
    assert train_fit.main([*line, *short]) == 0
    none, fourier = json.loads(Path("run/metrics.json").read_text())["fits"]
    assert fourier["psnr_db"] >= 34
    assert fourier["gain_db"] >= 10
    assert fourier["psnr_db"] - none["psnr_db"] == fourier["gain_db"]


@pytest.mark.slow
def test_a_comparison_groups_fits_by_image_and_measure_and_shows_what_differs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_noise()
    runs = {
        "a": ["--image", "cat", "--encodings", "none"],
        "b": ["--image", "noise.png", "--encodings", "none"],
        "c": ["--image", "cat", "--encodings", "none", "--held-out"],
        "d": ["--image", "cat", "--encodings", "none", "--seed", "7"],
    }
    for name, options in runs.items():
        small = [*SMALL_RUN, "--video", "2", "--quiet", "--out", name]
        assert train_fit.main([*options, *small]) == 0
    assert train_fit.main(["compare", *runs, "--out", "all.html"]) == 0
    page = Path("all.html").read_text()
    groups = re.findall(r'<tr class="group"><th colspan="8">([^<]*)</th>', page)
    assert len(groups) == 3
    assert groups[0].startswith("cat, 24 x ")
    assert groups[0].endswith(": PSNR (dB)")
    assert groups[1].startswith("noise, ")
    assert groups[2].endswith(": PSNR (dB) of held-out pixels")
    # The first group has both runs of the whole cat.
    table = page[page.index('id="scores"') : page.index("</tbody>")]
    assert table.index("d: none") < table.index("noise, ")
    differing = page[page.index("Settings that differ") :]
    row = differing[differing.index("<td>seed</td>") :]
    assert row[: row.index("</tr>")].count("<td>7</td>") == 1
    assert "<td>held out</td>" in differing
    assert page.count('<div class="learning">') == 4


def test_several_numbers_of_bands_are_one_run_with_a_curve(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--image", "cat", "--held-out", "--encodings", "fourier", *SMALL_RUN, "--quiet"]
    assert train_fit.main([*options, "--bands", "2", "1", "--out", "several"]) == 0
    assert train_fit.main([*options, "--bands", "2", "--out", "one"]) == 0
    fits = {
        name: {
            fit["name"]: fit for fit in json.loads(Path(name, "metrics.json").read_text())["fits"]
        }
        for name in ("several", "one")
    }
    # The fit with each value is that of a run with this value alone.
    both = [fits["several"]["fourier-2"], fits["one"]["fourier"]]
    assert both[0]["psnr_db"] == both[1]["psnr_db"]
    assert both[0]["psnr_fitted_db"] == both[1]["psnr_fitted_db"]
    page = Path("several/report.html").read_text()
    scores = {n: fits["several"][f"fourier-{n}"]["psnr_db"] for n in (1, 2)}
    better, worse = sorted(scores, key=lambda bands: -scores[bands])
    is_clear = scores[better] - scores[worse] >= 1
    assert (f"bands {better} scores best" in page) == is_clear
    assert (f"bands {better} and {worse} differ by less than seeds may" in page) != is_clear
    assert "PSNR of the fitted pixels (dB)" in page
    # A run of several values is read back by every command.
    assert train_fit.main(["render", "several", "--encoding", "fourier-1", "--quiet"]) == 0
    capsys.readouterr()
    assert train_fit.main(["render", "several"]) == 0
    assert f"chose fourier-{better} of fourier-2, fourier-1, the best" in capsys.readouterr().out
    assert train_fit.main(["--resume", "several"]) == 0
    assert "already complete" in capsys.readouterr().out
    assert train_fit.main(["compare", "several", "one"]) == 0


def test_sigmas_that_are_no_whole_numbers_have_files_of_their_own() -> None:
    options = ["--image", "cat", "--encodings", "gaussian", *SMALL_RUN, "--quiet"]
    assert train_fit.main([*options, "--sigma", "0.25", "1.5", "--out", "run"]) == 0
    names = {file.name for file in Path("run/fits").glob("*.safetensors")}
    assert names == {"gaussian-0.25.safetensors", "gaussian-1.5.safetensors"}
    assert train_fit.main(["render", "run", "--encoding", "gaussian-1.5", "--quiet"]) == 0


def test_a_comparison_is_written_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    for name, optimizer in (("a", "auto"), ("b", "muon")):
        options = ["--image", "cat", "--held-out", "--encodings", "fourier", *SMALL_RUN]
        options += ["--seed", str(ord(name)), "--quiet", "--out", name]
        assert train_fit.main([*options, "--optimizer", optimizer]) == 0
    assert train_fit.main(["compare", "a", "b", "--out", "ab.html", "--csv", "ab.csv"]) == 0
    with Path("ab.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    recorded = json.loads(Path("b/metrics.json").read_text())["fits"][0]
    own = next(row for row in rows if row["run"] == "b" and row["encoding"] == "fourier")
    assert float(own["psnr_db"]) == recorded["psnr_db"]
    # References of the same data are listed once.
    assert sum(row["encoding"] == "bicubic" for row in rows) == 1
    page = Path("ab.html").read_text()
    best = max(rows, key=lambda row: float(row["psnr_db"]))
    assert f"<h1>{best['run']}: {best['encoding']} " in page
    # Both were trained by Muon, chosen or left open.
    differing = capsys.readouterr().out.partition("Settings that differ:\n")[2]
    assert [line.split()[0] for line in differing.splitlines()[1:-1]] == ["seed"]
    assert "Settings that differ" in page
    before = Path("ab.csv").read_bytes()
    for option in ("--csv", "--tex"):
        assert train_fit.main(["compare", "a", "--out", "a.html", option, "ab.csv"]) == 2
    assert Path("ab.csv").read_bytes() == before


def test_a_comparison_records_each_seed() -> None:
    options = ["--image", "cat", "--size", "48", "--encodings", "none", "fourier", *SMALL_RUN]
    assert train_fit.main([*options, "--seeds", "3", "--seed", "5", "--quiet", "--out", "s"]) == 0
    compare = ["compare", "s", "--out", "s.html", "--csv", "s.csv", "--tex", "s.tex"]
    assert train_fit.main(compare) == 0
    with Path("s.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["encoding"] == "fourier"]
    assert [row["seed"] for row in rows] == ["5", "6", "7"]
    scores = [float(row["psnr_db"]) for row in rows]
    assert len(set(scores)) == 3
    recorded = json.loads(Path("s/run.json").read_text())
    assert {row["digest"] for row in rows} == {recorded["digest"]}
    assert {row["torch"] for row in rows} == {recorded["versions"]["torch"]}
    # The table of the page and that for LaTeX hold their mean and their deviation.
    mean, deviation = f"{np.mean(scores):.2f}", f"{np.std(scores, ddof=1):.2f}"
    assert "s: fourier & " in Path("s.tex").read_text()
    assert rf"& {mean} $\pm$ {deviation} (3) &" in Path("s.tex").read_text()
    assert f"± {deviation} (3)" in Path("s.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_fit_takes_the_same_steps() -> None:
    small = [*SMALL_RUN, "--encodings", "fourier", "--quiet", "--video", "0"]
    assert train_fit.main([*small, "--out", "plain"]) == 0
    assert train_fit.main([*small, "--compile", "--out", "compiled"]) == 0
    plain, compiled = (
        [
            r["psnr_db"]
            for r in json.loads(Path(f, "metrics.json").read_text())["fits"][0]["history"]
        ]
        for f in ("plain", "compiled")
    )
    assert compiled == pytest.approx(plain, rel=1e-2)


@pytest.mark.usefixtures("unchecked")
def test_a_compiler_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    torch.compiler.reset()
    arguments = ["--compile", "--encodings", "none", "--quiet", "--out", "run", *SMALL_RUN]
    with torch._inductor.config.patch({"force_disable_caches": True, "cpp.cxx": (None, "/no/c++")}):
        assert train_fit.main(arguments) == 1
    assert "leave out --compile" in capsys.readouterr().err
    assert not Path("run").exists()
