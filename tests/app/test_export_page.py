"""The exported page computes in a browser what torch computes, and asks the network for nothing."""

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
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
from nerf_posenc.metrics import psnr
from nerf_posenc.networks import MLP, siren
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc_app.report.networks import why_not
from nerf_posenc_app.report.packed_weights import TOLERANCE, linear_layers, pack_fit, weight_rows
from nerf_posenc_app.web.fit_page import fit_page
from scenes import open_image
from tests.browsers import CHROMIUM, needs_chromium
from tests.small import SMALL_RUN, SMALL_SEQUENCE, quick_report

NAMES = ("none", "fourier", "gaussian", "hash")
WHOLE = (0.0, 0.0, 24.0, 16.0)
# In pixels: left, top, width and height; 64 points for each pixel.
DETAIL = (7.3, 4.1, 0.75, 0.5)
SIREN = CoordinateModel("siren")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run ``image`` and its page."""
    folder = tmp_path_factory.mktemp("home")
    run = ["--image", "cat", "--encodings", *NAMES, *SMALL_RUN, "--video", "0", "--quiet"]
    with quick_report():
        assert train_fit.main([*run, "--bands", "4", "--out", str(folder / "image")]) == 0
    assert train_fit.main(["export", str(folder / "image"), "--page"]) == 0
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
    page = open_page(chromium, home / "image" / "page.html")
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


def drawn(page: Any, name: str, window: tuple[float, ...], width: int, **more: Any) -> Tensor:
    """RGB of a window as the page's own renderer computes it."""
    left, top, across, down = window
    height = round(width * down / across)
    corners = [left, top, left + across, top + down, width, height]
    values = page.evaluate(
        "([...all]) => renderAt(...all)",
        [name, *corners, more.get("bands", 99), more.get("engine", "WebGL2")],
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
    page = fit_page(fits, title="<made>", command="none")
    assert page.packed["exact"].bits == 32
    (tmp_path / "page.html").write_text(page.html, encoding="utf-8")
    opened = open_page(chromium, tmp_path / "page.html")
    for name, fit in fits.items():
        for engine in ("WebGL2", "CPU"):
            image = drawn(opened, name, WHOLE, 60, engine=engine)
            assert float((image - fit.render(60)).abs().max()) <= 1 / 255 + 1e-6
    assert opened.locator(".eyebrow").inner_text().startswith("<made>")
    assert opened.problems == []
    opened.context.close()


def with_an_outlier(network: MLP) -> MLP:
    """The same function, with a huge weight of a unit that is always 0."""
    first, second = linear_layers(network)[:2]
    with torch.no_grad():
        first.weight[0], first.bias[0] = 0.0, -1.0
        second.weight[:, 0] = 1e9
    return network


@pytest.mark.slow
@needs_chromium
def test_both_sides_show_the_whole_image_first(opened: Any) -> None:
    wait_until(opened, DONE)
    best = opened.evaluate("data.right")
    for side, name in (("left", "none"), ("right", best)):
        selector = f"document.querySelector('#{side}-view canvas')"
        width, height = opened.evaluate(f"[{selector}.width, {selector}.height]")
        context = f"{selector}.getContext('2d')"
        read = f"[...{context}.getImageData(0, 0, {width}, {height}).data]"
        pixels = torch.tensor(opened.evaluate(read)).reshape(height, width, 4)
        expected = saved(name).render(width)
        assert float((pixels[..., :3] / 255 - expected).abs().max()) <= 1 / 255 + 1e-6
        assert bool((pixels[..., 3] == 255).all())
        tag = opened.locator(f"#{side}-view .tag").inner_text()
        assert re.fullmatch(rf"{name}, \d+\.\d dB", tag)
    assert "points computed by" in opened.locator("#state").inner_text()


@pytest.mark.slow
@needs_chromium
def test_without_webgl_the_cpu_computes(chromium: Any, home: Path) -> None:
    without = (
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...more) {"
        " return kind === 'webgl2' ? null : get.call(this, kind, ...more); };"
    )
    page = open_page(chromium, home / "image" / "page.html", without)
    wait_until(page, DONE)
    assert "points computed by CPU" in page.locator("#state").inner_text()
    image = drawn(page, "fourier", DETAIL, 24, engine="")
    expected = saved("fourier").render(24, window=DETAIL)
    assert float((image - expected).abs().max()) <= 1 / 255 + 1e-6
    assert page.problems == []
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_both_sides_move_together_and_no_further_than_the_image(chromium: Any, home: Path) -> None:
    page = open_page(chromium, home / "image" / "page.html", reduced_motion="reduce", height=600)
    view = page.locator("#left-view")
    box = view.bounding_box()
    view.focus()
    page.keyboard.press("+")
    assert page.evaluate("shown.span") == pytest.approx(16)
    page.keyboard.press("ArrowRight")
    assert page.evaluate("shown.left") == pytest.approx(4 + 1.6)
    page.locator("#closer").click()
    assert page.evaluate("shown.span") == pytest.approx(16 / 1.5)
    before = page.evaluate("shown.left")
    page.mouse.move(box["x"] + 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 70, box["y"] + 50, steps=3)
    page.mouse.up()
    moved = 30 / box["width"] * 16 / 1.5
    assert page.evaluate("shown.left") == pytest.approx(before + moved, rel=1e-3)
    # The view was clicked, so that the wheel zooms.
    for _ in range(4):
        page.mouse.wheel(0, -1000)
    wait_until(page, "Math.abs(panes[0].view.clientWidth / shown.span - 64) < 1e-6")
    page.evaluate("showWindow(1, 1, shown.span)")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    assert page.evaluate("[shown.left, shown.top]") == [0, 1]
    page.keyboard.press("0")
    assert page.evaluate("[shown.left, shown.top, shown.span]") == [0, 0, 24]
    wait_until(page, "panes.every((pane) => pane.jobs.every((job) => job.bounds[2] === 24))")
    assert page.problems == []
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_two_fingers_zoom_and_one_scrolls_the_page(chromium: Any, home: Path) -> None:
    page = open_page(chromium, home / "image" / "page.html", has_touch=True, height=600)
    view = page.locator("#left-view")
    assert view.evaluate("(view) => getComputedStyle(view).touchAction") == "pan-y"
    box = view.bounding_box()
    client = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 60), ("touchEnd", 0)):
        x, y = box["x"] + box["width"] / 2, box["y"] + 60
        fingers = [{"x": x + sign * apart / 2, "y": y, "id": sign + 1} for sign in (-1, 1)]
        points = fingers if apart else []
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    wait_until(page, "Math.abs(shown.span - 8) < 0.5")
    # Then one finger moves the image.
    assert view.evaluate("(view) => getComputedStyle(view).touchAction") == "none"
    page.context.close()


@pytest.mark.slow
@needs_chromium
def test_the_bands_are_let_in_by_a_slider(chromium: Any, home: Path) -> None:
    page = open_page(chromium, home / "image" / "page.html")
    slider = page.locator("#bands")
    page.locator("#right").select_option("fourier")
    assert slider.is_enabled()
    assert slider.get_attribute("max") == "4"
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#right-view .tag").inner_text() == "fourier, 3 of 4 bands"
    assert slider.get_attribute("aria-valuetext") == "3 of 4 bands"
    # A wave of band k is 2^-k of the longer side: 24 / 4.
    assert "6.0 image pixels" in page.locator("#why").inner_text()
    wait_until(page, "panes[1].jobs.every((job) => job.bands === 3)")
    page.locator("#right").select_option("gaussian")
    assert slider.is_disabled()
    assert "choose it on one side" in page.locator("#why").inner_text()
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
    wait_until(page, "document.documentElement.dataset.done === 'true'")
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


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_both_images_and_the_slider_stand_above_the_fold(
    chromium: Any, home: Path, width: int, height: int
) -> None:
    page = open_page(chromium, home / "image" / "page.html")
    page.set_viewport_size({"width": width, "height": height})
    for selector in ("#left-view", "#right-view", "#bands"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def unpacked(described: Mapping[str, Any], fit: ImageFit) -> list[float]:
    """Weights from the page, decoded bit by bit."""
    raw = zlib.decompress(base64.b64decode(described["data"]))
    rows, bits = weight_rows(fit), described["bits"]
    count = sum(row.numel() for row in rows)
    num_exact = 4 * described["features"] + sum(outputs for _, outputs in described["layers"])
    floats = np.frombuffer(raw, "<f4", num_exact + len(rows))
    high = np.frombuffer(raw, np.int8, count, 4 * len(floats))
    stream = "".join(f"{byte:08b}"[::-1] for byte in raw[4 * len(floats) + count :])
    size, values, i = bits - 8, [], 0
    for row, scale in zip(rows, floats[num_exact:], strict=True):
        for _ in range(row.numel()):
            rest = int("0" + stream[i * size : (i + 1) * size][::-1], 2)
            values.append((int(high[i]) * 2**size + rest) * float(scale))
            i += 1
    return values


def test_the_weights_are_rounded_to_the_fewest_bits_that_keep_the_image() -> None:
    for name in ("none", "fourier"):
        fit = saved(name)
        described = next(
            each
            for each in data_of(Path("image/page.html").read_text(encoding="utf-8"))["fits"]
            if each["name"] == name
        )
        assert 8 <= described["bits"] <= 16
        decoded = torch.tensor(unpacked(described, fit))
        exact = fit.render()
        steps = [row.abs().max() / (2 ** (described["bits"] - 1) - 1) for row in weight_rows(fit)]
        bound = torch.cat(
            [(0.5 * s).expand(r.numel()) for r, s in zip(weight_rows(fit), steps, strict=True)]
        )
        assert bool(((decoded - torch.cat(weight_rows(fit))).abs() <= bound * 1.001).all())
        parts = decoded.split([row.numel() for row in weight_rows(fit)])
        for row, values in zip(weight_rows(fit), parts, strict=True):
            row.copy_(values)
        assert float((fit.render() - exact).abs().max()) <= TOLERANCE


def test_weights_that_cannot_be_rounded_are_kept() -> None:
    network = with_an_outlier(MLP(2, 3, width=8, depth=2))
    packed = pack_fit(made(Identity(2), network), [torch.zeros(3)])
    assert (packed.bits, packed.difference) == (32, 0.0)
    values = np.frombuffer(zlib.decompress(packed.data), "<f4")
    assert np.array_equal(values[3:5], linear_layers(network)[0].weight[0].detach().numpy())


@pytest.mark.slow
def test_the_page_of_default_networks_fits_in_one_megabyte() -> None:
    fits = {}
    for name, encoder in (("none", Identity(2)), ("fourier", FourierEncoder(2, 10))):
        generator = torch.Generator().manual_seed(1)
        network = MLP(encoder.out_dim, 3, generator=generator)
        # Weights of fits are about 1.5 times as large as those they begin with.
        with torch.no_grad():
            for layer in linear_layers(network)[:-1]:
                layer.weight.mul_(1.5)
        fits[name] = replace(made(encoder, network), size=(451, 300))
    page = fit_page(fits, title="cat", command="none")
    assert len(page.html.encode()) <= 1_000_000
    assert max(packed.bits for packed in page.packed.values()) <= 16


def test_a_page_that_browsers_would_choke_on_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nerf_posenc_app.web.fit_page.MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match="more than 0"):
        fit_page({"made": made(Identity(2))}, title="made", command="none")
    assert train_fit.main(["export", "image", "--page", "--out", "big.html"]) == 2
    assert not Path("big.html").exists()


def test_fits_that_the_page_cannot_run_are_named() -> None:
    assert why_not(saved("hash")) is None
    waves = replace(made(Identity(2), siren(2, 3, width=8, depth=1)), options=SIREN)
    assert why_not(waves) == "network siren"
    narrow = HashGridEncoder(2, 2, features_per_level=2)
    assert "4 features" in (why_not(made(narrow)) or "")


def test_the_command_says_what_it_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    assert train_fit.main(["export", "image", "--page", "--out", "all.html"]) == 0
    expected = r"exported none, fourier, gaussian, hash: wrote all\.html \(0\.\d\d MB\)\n"
    assert re.fullmatch(expected, capsys.readouterr().out)
    # One fit, and the one on raw coordinates beside it.
    one = ["export", "image", "--page", "--encoding", "hash", "--out", "one.html"]
    assert train_fit.main(one) == 0
    assert "exported none, hash: wrote one.html" in capsys.readouterr().out
    names = [fit["name"] for fit in data_of(Path("one.html").read_text(encoding="utf-8"))["fits"]]
    assert names == ["none", "hash"]
    file = ["export", "image/fits/fourier.safetensors", "--page"]
    assert train_fit.main(file) == 0
    assert "exported fourier: wrote image/fits/page.html" in capsys.readouterr().out


def test_a_mistake_gets_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = ["--image", "cat", "--encodings", "siren", *SMALL_RUN, "--video", "0", "--quiet"]
    with quick_report():
        assert train_fit.main([*other, "--out", "siren"]) == 0
    mistakes = {
        ("image", "--page"): "image/page.html exists already",
        ("image", "--page", "--onnx"): "one format: --onnx, --page, --mesh or --hub",
        ("image",): "needs a format: --onnx, --page, --mesh or --hub",
        ("siren", "--page"): "runs ReLU networks; siren has siren (network siren)",
        ("image", "--page", "--encoding", "wire"): "no fit 'wire'",
        ("nowhere", "--page"): "there is no folder nowhere",
        ("image", "--page", "--out", "image/run.json/a.html"): "cannot write image/run.json",
    }
    capsys.readouterr()
    for arguments, message in mistakes.items():
        assert train_fit.main(["export", *arguments]) == 2
        errors = capsys.readouterr().err
        assert message in errors
        assert errors.count("\n") == 1


@pytest.mark.slow
def test_a_sequence_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("text.txt").write_text("to be or not to be, that is the question. " * 200)
    assert train_fit.main([*SMALL_SEQUENCE, "--quiet", "--out", "sequence"]) == 0
    assert train_fit.main(["export", "sequence", "--page"]) == 2
    errors = capsys.readouterr().err
    assert "of a sequence" in errors
    assert errors.count("\n") == 1
