"""The report computes in a browser what torch computes, and asks the network for nothing."""

import base64
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import train_fit
from nerf_posenc import FourierEncoder, GaussianEncoder, HashGridEncoder
from nerf_posenc.core.encoder import Identity
from nerf_posenc.fits import ImageFit, load_fit
from nerf_posenc.images import Image
from nerf_posenc.metrics import psnr
from nerf_posenc.networks import MLP, siren
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc_app.data import open_image
from nerf_posenc_app.kinds.image.reconstruction import network_of
from nerf_posenc_app.report.networks import described, why_not
from nerf_posenc_app.report.page import write_page
from nerf_posenc_app.values.blocks import Evaluation, Network, View
from nerf_posenc_app.values.names import FitName
from nerf_posenc_app.values.results import Result
from tests.app.test_page import about
from tests.browsers import CHROMIUM, needs_chromium
from tests.small import SMALL_RUN

NAMES = ("none", "fourier", "gaussian", "hash")
WHOLE = (0.0, 0.0, 24.0, 16.0)
# In pixels: left, top, width and height; 64 points for each pixel.
DETAIL = (7.3, 4.1, 0.75, 0.5)
SIREN = CoordinateModel("siren")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run ``image``."""
    folder = tmp_path_factory.mktemp("home")
    run = ["--image", "cat", "--encodings", *NAMES, *SMALL_RUN, "--video", "0", "--quiet"]
    assert train_fit.main([*run, "--bands", "4", "--out", str(folder / "image")]) == 0
    return folder


@pytest.fixture(autouse=True)
def _in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser with WebGL2 on the CPU."""
    from playwright import sync_api as playwright

    quiet = "--disable-sync --disable-quic --disable-background-networking"
    webgl = "--use-gl=angle --use-angle=swiftshader --enable-unsafe-swiftshader"
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-component-update", *quiet.split(), *webgl.split()],
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def opened(chromium: Any, home: Path) -> Iterator[Any]:
    """The run's page, which only reads itself."""
    page = open_page(chromium, home / "image" / "report.html")
    yield page
    assert page.problems == []
    page.context.close()


def open_page(chromium: Any, file: Path, script: str = "", **options: Any) -> Any:
    """Open a page and note what it must not do: requests and errors."""
    # In a low window the images are small, and soon computed.
    viewport = {"width": 640, "height": options.pop("height", 160)}
    context = chromium.new_context(viewport=viewport, **options)
    page = context.new_page()
    page.problems = []
    if script:
        page.add_init_script(script)
    page.on("request", lambda r: r.url == file.as_uri() or page.problems.append(r.url))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(file.as_uri())
    page.evaluate("ready")
    return page


def wait_until(page: Any, condition: str) -> None:
    """Wait for a condition in the page, whose policy forbids to evaluate texts in it."""
    for _ in range(1000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"never: {condition}")


DONE = "document.documentElement.dataset.done === 'true'"
RENDER = """async ([name, x0, y0, x1, y1, width, height, bands, kind]) => {
  const all = [...runnable.values()];
  const used = kind === "CPU" ? engine.cpu : (window.gpu ||= new GpuEngine(all));
  const fit = runnable.get(name), rgb = [];
  const points = pointsOf(networks.size, [x0, y0, x1, y1], width, height, false);
  for (let start = 0; start < width * height;) {
    const count = Math.min(engine.batch(fit), width * height - start);
    const rgba = await used.evaluate(fit, Math.min(bands, fit.bands), points, start, count);
    rgba.forEach((value, i) => { if (i % 4 < 3) rgb.push(value); });
    start += count;
  }
  return rgb;
}"""
"""The engine of the page evaluates a fit at points of a window."""


def drawn(page: Any, name: str, window: tuple[float, ...], width: int, **more: Any) -> Tensor:
    """RGB of a window as the engine of the page computes it."""
    left, top, across, down = window
    height = round(width * down / across)
    corners = [left, top, left + across, top + down, width, height]
    values = page.evaluate(
        RENDER, [name, *corners, more.get("bands", 99), more.get("engine", "WebGL2")]
    )
    return torch.tensor(values).reshape(height, width, 3) / 255


def saved(name: str) -> ImageFit:
    fit = load_fit(f"image/fits/{name}.safetensors")
    assert isinstance(fit, ImageFit)
    return fit


class Masked(nn.Module):
    """A Fourier encoder whose upper bands are off, column by column."""

    def __init__(self, encoder: FourierEncoder, bands: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.on = torch.tensor([float(band < bands) for band, _, _ in encoder.columns])

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.encoder(x)
        return features * self.on


def masked(fit: ImageFit, bands: int) -> ImageFit:
    assert isinstance(fit.encoder, FourierEncoder)
    encoder: Any = Masked(fit.encoder, bands)
    object.__setattr__(fit, "encoder", encoder)
    return fit


def made(encoder: Any, network: nn.Module | None = None, seed: int = 0) -> ImageFit:
    """A fit that was never fitted, with weights as large as those of fits."""
    generator = torch.Generator().manual_seed(seed)
    network = network or MLP(encoder.out_dim, 3, width=10, depth=2, generator=generator)
    return ImageFit(encoder, network, CoordinateModel("made"), (24, 16), 1, 1)


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("engine", ["WebGL2", "CPU"])
@pytest.mark.parametrize("name", NAMES)
def test_each_encoding_has_torchs_values(opened: Any, name: str, engine: str) -> None:
    fit = saved(name)
    for window, width in ((WHOLE, 24), (WHOLE, 70), (DETAIL, 48)):
        image = drawn(opened, name, window, width, engine=engine)
        assert float((image - fit.render(width, window=window)).abs().max()) <= 1 / 255 + 1e-6


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("engine", ["WebGL2", "CPU"])
def test_bands_that_are_off_are_zero_features(opened: Any, engine: str) -> None:
    images = []
    for bands in range(5):
        image = drawn(opened, "fourier", WHOLE, 48, bands=bands, engine=engine)
        expected = masked(saved("fourier"), bands).render(48)
        assert float((image - expected).abs().max()) <= 1 / 255 + 1e-6
        images.append(image)
    assert float((images[0] - images[0][0, 0]).abs().max()) == 0
    assert float((images[3] - images[4]).abs().max()) > 0.02
    # Other encodings have no octaves.
    plain = drawn(opened, "gaussian", WHOLE, 24, bands=0, engine=engine)
    assert torch.equal(plain, drawn(opened, "gaussian", WHOLE, 24, engine=engine))


@pytest.mark.slow
@needs_chromium
def test_hashed_levels_odd_widths_and_unrounded_weights(chromium: Any, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    grid = HashGridEncoder(
        2, 5, features_per_level=4, log2_table_size=7, base_resolution=4, generator=generator
    )
    with torch.no_grad():
        grid.table.uniform_(-1, 1, generator=generator)
    assert 0 < grid.num_dense < 5
    network = MLP(2, 3, width=7, depth=3, generator=generator)
    fits = {
        "hashed": made(grid),
        "odd": made(FourierEncoder(2, 3, include_input="front")),
        "one band": made(GaussianEncoder(2, 9, sigma=3.0, generator=generator)),
        "exact": made(Identity(2), with_an_outlier(network)),
    }
    assert [described("", fit)["half"] for fit in fits.values()] == [True, True, True, False]
    pixels = torch.rand(16, 24, 3)
    results = [
        Result(
            name=FitName(name),
            seconds=1.0,
            evaluation=Evaluation(
                {"psnr_db": 20.0, "ssim": 0.5},
                [
                    View("made", pixels, fit.render()),
                    Network("made", fit, [10.0] * 4 if name == "odd" else ()),
                ],
            ),
        )
        for name, fit in fits.items()
    ]
    write_page(tmp_path / "page.html", about(), results)
    opened = open_page(chromium, tmp_path / "page.html")
    for name, fit in fits.items():
        for engine in ("WebGL2", "CPU"):
            image = drawn(opened, name, WHOLE, 60, engine=engine)
            assert float((image - fit.render(60)).abs().max()) <= 1 / 255 + 1e-6
    assert opened.problems == []
    opened.context.close()


def with_an_outlier(network: MLP) -> MLP:
    """The same function, with a huge weight of a unit that is always 0."""
    first, second, *_ = (m for m in network.modules() if isinstance(m, nn.Linear))
    with torch.no_grad():
        first.weight[0], first.bias[0] = 0.0, -1.0
        second.weight[:, 0] = 1e9
    return network


@pytest.mark.slow
@needs_chromium
def test_without_webgl_the_cpu_computes(chromium: Any, home: Path) -> None:
    without = (
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...more) {"
        " return kind === 'webgl2' ? null : get.call(this, kind, ...more); };"
    )
    page = open_page(chromium, home / "image" / "report.html", without)
    assert page.evaluate("engine.used === engine.cpu")
    image = drawn(page, "fourier", DETAIL, 24, engine="CPU")
    expected = saved("fourier").render(24, window=DETAIL)
    assert float((image - expected).abs().max()) <= 1 / 255 + 1e-6
    assert page.problems == []
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_the_report_evaluates_fewer_bands(chromium: Any, home: Path) -> None:
    run = ["--image", "cat", "--bands", "4", *SMALL_RUN, "--quiet", "--out", "report"]
    assert train_fit.main(run) == 0
    page = open_page(chromium, home / "report" / "report.html")
    assert page.locator("#count").inner_text() == "4 of 4"
    # Moved, and before that the images of the run are shown.
    assert page.locator("#right-network").is_hidden()
    page.locator("#bands").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#bands").get_attribute("aria-valuetext") == "3 of 4 bands"
    wait_until(page, DONE)
    fit = load_fit("report/fits/fourier.safetensors")
    assert isinstance(fit, ImageFit)
    three = torch.tensor([1.0, 1.0, 1.0, 0.0])

    def evaluate(x: Tensor) -> Tensor:
        with torch.no_grad():
            values: Tensor = fit.network(fit.encoder(x, weight=three))
            return values

    x0, y0, x1, y1 = page.evaluate("shownPart()")
    size = page.evaluate("[$('right-network').width, $('right-network').height]")
    x, y = (
        ((low + (torch.arange(n) + 0.5) * (high - low) / n) - side / 2) * 2 / 24
        for low, high, n, side in zip((x0, y0), (x1, y1), size, (24, 16), strict=True)
    )
    expected = evaluate(torch.stack(torch.meshgrid(x, y, indexing="xy"), -1))
    script = "[...$('right-network').getContext('2d').getImageData(0, 0, W, H).data]"
    script = script.replace("W", str(size[0])).replace("H", str(size[1]))
    drawn_values = torch.tensor(page.evaluate(script)).reshape(*expected.shape[:2], 4)[..., :3]
    assert float((drawn_values / 255 - expected).abs().max()) <= 1.5 / 255
    image = open_image("cat").resized(24)
    score = psnr(evaluate(image.coordinates), image.rgb)
    tag = f"{score:.1f} dB, fourier 3/4"
    assert page.locator("#right-tag").inner_text() == tag
    assert page.problems == []
    page.context.close()


def test_the_psnr_of_fewer_bands_is_without_the_features_of_the_others() -> None:
    image = Image.from_rgb(torch.rand(16, 24, 3, generator=torch.Generator().manual_seed(1)))
    fit = made(FourierEncoder(2, 4))
    model = nn.Sequential(fit.encoder, fit.network)
    scores = network_of(image, model, CoordinateModel("made"), "made").psnr_by_bands
    expected = [psnr(masked(made(FourierEncoder(2, 4)), n).render(), image.rgb) for n in range(4)]
    assert scores == pytest.approx(expected, abs=1e-4)


def test_the_weights_of_the_page_keep_the_image() -> None:
    for name in ("none", "fourier"):
        fit, decoded = saved(name), saved(name)
        shown = described(name, fit)
        assert shown["half"]
        raw = zlib.decompress(base64.b64decode(shown["data"]))
        weights = [w for w in decoded.network.parameters() if w.ndim == 2]
        counts = [weight.numel() for weight in weights]
        values = torch.from_numpy(np.frombuffer(raw[-2 * sum(counts) :], "<f2").copy())
        for weight, part in zip(weights, values.split(counts), strict=True):
            weight.data.copy_(part.view_as(weight))
        assert float((decoded.render() - fit.render()).abs().max()) <= 0.45 / 255


def test_fits_that_the_page_cannot_run_are_named() -> None:
    assert why_not(saved("hash")) is None
    waves = replace(made(Identity(2), siren(2, 3, width=8, depth=1)), options=SIREN)
    assert why_not(waves) == "network siren"
    narrow = HashGridEncoder(2, 2, features_per_level=2)
    assert "4 features" in (why_not(made(narrow)) or "")
