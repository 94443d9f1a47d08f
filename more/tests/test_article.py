"""The article that computes while it is read: its arithmetic against torch and the library."""

import base64
import json
import math
import shutil
import subprocess
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from docs.make_article import FOLDER, PAGE, PURE, page
from nerf_posenc import FourierEncoder, GaussianEncoder, SinusoidalEncoder
from nerf_posenc_sequences.layers.language_models import TransformerLM
from tests.browsers import browser as browser
from tests.browsers import needs_chromium

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def run_js(expression: str, given: object = None) -> Any:
    """Value of an expression that uses the article's scripts; `given` is its input."""
    files = [str(FOLDER / name) for name in (*PURE, "claims.js")]
    code = (
        "const fs = require('fs'), vm = require('vm');"
        f"for (const file of {json.dumps(files)})"
        " vm.runInThisContext(fs.readFileSync(file, 'utf8'));"
        "globalThis.given = JSON.parse(fs.readFileSync(0, 'utf8'));"
        f"console.log(JSON.stringify(vm.runInThisContext({json.dumps(expression)})))"
    )
    done = subprocess.run(
        ["node", "-e", code], input=json.dumps(given), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_is_that_of_its_sources() -> None:
    assert PAGE.read_text() == page()
    assert PAGE.stat().st_size < 3_000_000


@needs_node
def test_its_losses_are_those_of_torch() -> None:
    torch.manual_seed(0)
    encoder, steps, batch = FourierEncoder(2, 4, layout="akp"), 200, 64
    network = torch.nn.Sequential(
        torch.nn.Linear(16, 24), torch.nn.ReLU(),
        torch.nn.Linear(24, 24), torch.nn.ReLU(),
        torch.nn.Linear(24, 3),
    )  # fmt: skip
    layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    weights = [
        {"weight": each.weight.flatten().tolist(), "bias": each.bias.tolist()} for each in layers
    ]
    points = torch.rand(steps, batch, 2) * 2 - 1
    targets = torch.rand(steps, batch, 3)
    optimizer, expected = torch.optim.Adam(network.parameters(), lr=0.005), []
    for x, y in zip(points, targets, strict=True):
        loss = torch.nn.functional.mse_loss(network(encoder(x)), y)
        expected.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = run_js(
        "(() => { const network = new Network([16, 24, 24, 3], given.weights);"
        "return given.points.map((points, i) => network.train("
        "encodePoints(points, 4).features, Float32Array.from(given.targets[i].flat()),"
        " points.length, 0.005)); })()",
        {"weights": weights, "points": points.tolist(), "targets": targets.tolist()},
    )
    assert found == pytest.approx(expected, rel=1e-3)


@needs_node
def test_the_numbers_of_the_text_are_those_of_the_library() -> None:
    shown = run_js("Object.fromEntries(Object.entries(VALUES).map(([k, f]) => [k, String(f())]))")
    eight = FourierEncoder(1, 8).double()

    def similarity(distance: float) -> float:
        a, b = eight(torch.tensor([[0.1], [0.1 + distance]], dtype=torch.float64))
        return float(a @ b) / 8

    positions = torch.arange(1001, dtype=torch.float64)
    wide, narrow = (SinusoidalEncoder(width)(positions) for width in (128, 64))

    def falling(width: int) -> torch.Tensor:
        codes: torch.Tensor = SinusoidalEncoder(width)(positions)
        return codes @ codes[0] / (width / 2)

    def bump(width: int) -> int:
        values = falling(width)
        return next(k for k in range(1, 1000) if values[k + 1] > values[k])

    moved = narrow[18]
    for scale, name in ((1.0, "head-plain"), (16.0, "head-scaled")):
        weights = torch.softmax(scale * narrow[:50] @ moved / 8, dim=0)
        assert shown[name] == f"{float(weights[18]):.2f}"
    assert shown["kernel-neighbor"] == f"{similarity(1 / 128):.2f}"
    assert shown["kernel-one"] == f"{similarity(1):.2f}"
    assert shown["kernel-two"] == f"{similarity(2):.1f}"
    found = run_js(
        "[firstBump(), similarity(1000), distance(shifted(sinusoidal(999), 5), sinusoidal(1004))]"
    )
    assert found[0] == bump(128)
    assert [shown["bump-128"], shown["bump-512"]] == [str(bump(128)), str(bump(512))]
    assert shown["similarity-far"] == f"{float(falling(512)[500]):.2f}"
    assert found[1] == pytest.approx(float(wide[1000] @ wide[0]) / 64)
    assert found[2] < 1e-12
    assert shown["longest-wavelength"] == f"{round(2 * math.pi * 10_000):,}"
    assert shown["raw-parameters"] == f"{3 * 128 + 129 * 128 + 129 * 3:,}"
    assert shown["encoded-parameters"] == f"{21 * 64 + 65 * 64 + 65 * 3:,}"
    assert float(shown["integer-distance"]) < 1e-12
    assert 0.75 < float(shown["recovered"].removesuffix("%")) / 100 < 0.95


@needs_node
def test_the_octaves_are_those_of_an_fft() -> None:
    cat, image = torch.rand(2, 64, 64, 3, dtype=torch.float64)
    found = run_js(
        "recoveredOctaves(given[0], given[1])", [x.flatten().tolist() for x in (image, cat)]
    )
    frequencies = torch.fft.fftfreq(64, 1 / 64).abs()
    largest = torch.maximum(frequencies[:, None], frequencies)
    error, whole = (torch.fft.fft2(x.mean(-1)).abs().square() for x in (image - cat, cat))
    octaves = [(largest >= 2**k) & (largest < 2 ** (k + 1)) for k in range(5)]
    expected = [max(0.0, float(1 - error[o].sum() / whole[o].sum())) for o in octaves]
    assert found == pytest.approx(expected, abs=1e-9)


@needs_node
def test_gaussian_features_are_those_of_frequencies_of_that_deviation() -> None:
    frequencies = run_js("normalFrequencies(5, 4000)")
    assert torch.tensor(frequencies).std(0).tolist() == pytest.approx([5, 5], rel=0.05)
    points = torch.rand(7, 2) * 2 - 1
    # The library has half as many cycles per unit, and all sines before all cosines.
    sines, cosines = GaussianEncoder(2, matrix=torch.tensor(frequencies[:20]) / 2)(points).chunk(
        2, 1
    )
    found = run_js("[...encodePoints(given, 0, 5).features]", points.tolist())
    expected = torch.stack([sines, cosines], -1).flatten().tolist()
    assert found == pytest.approx(expected, abs=1e-5)


@needs_node
def test_descent_finds_the_shift_from_coarse_to_fine_and_sticks_without() -> None:
    shifts = run_js(
        "(() => { const row = frequencyEnergies(Array.from({ length: 64 }, (_, i) =>"
        " Math.sin(i / 64 * 6.283) + 0.8 * Math.sin(i * 1.1) + 0.5 * Math.cos(i * 2.1)));"
        "return [descend(row, 19, () => 24), descend(row, 19, (p) => easedBands(p, 24))]; })()"
    )
    assert abs(shifts[0]) > 5
    assert abs(shifts[1]) < 0.5


@needs_node
def test_the_language_models_are_those_of_torch() -> None:
    saved = json.loads((FOLDER / "models.json").read_text())
    found = run_js(
        "Object.fromEntries(languageModels(given).map((model) =>"
        " [model.encoding, [...readWindows(model, given).bits]]))",
        saved,
    )
    index = {character: i for i, character in enumerate(saved["alphabet"])}
    symbols = torch.tensor(
        [[index.get(c, len(index)) for c in window] for window in saved["windows"]]
    )
    means = {}
    for encoding, weights in saved["weights"].items():
        values = torch.frombuffer(bytearray(base64.b64decode(weights)), dtype=torch.float32)
        model = TransformerLM(
            len(index) + 2,
            encoding,
            torch.Generator(),
            width=32,
            depth=1,
            num_heads=saved["heads"],
            max_length=symbols.shape[1] - 1,
            is_causal=True,
        )
        sizes = [math.prod(shape) for shape in saved["shapes"].values()]
        parts = zip(saved["shapes"].items(), values.split(sizes), strict=True)
        model.load_state_dict({name: part.view(shape) for (name, shape), part in parts})
        with torch.no_grad():
            nats = F.cross_entropy(model(symbols[:, :-1]).mT, symbols[:, 1:], reduction="none")
        bits = (nats / math.log(2)).mean(0)
        assert found[encoding] == pytest.approx(bits.tolist(), rel=1e-3, abs=1e-3)
        means[encoding] = [float(part.mean()) for part in bits.split(64)]
    # What the text says: sinusoids fail after 64, rotary holds to 256, ALiBi throughout.
    assert means["sinusoidal"][0] + 1.5 < means["sinusoidal"][1]
    assert max(means["rotary"][:4]) + 1 < min(means["rotary"][5:])
    assert max(means["alibi"]) < 4


@needs_node
def test_every_claim_has_a_verdict_and_a_number() -> None:
    claims = run_js("CLAIMS.map(({ said, is, shown }) => [said, is, shown()])")
    assert len(claims) >= 10
    assert all(any(c.isdigit() for c in shown) and "NaN" not in shown for _, _, shown in claims)


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_trains_and_answers_its_sliders_without_a_request(
    browser: Any, width: int, scheme: str
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    requests: list[str] = []
    messages: list[str] = []
    opened.on("request", lambda request: requests.append(request.url))
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.goto(PAGE.as_uri())
    figure = opened.locator("figure[data-figure=train]")
    figure.scroll_into_view_if_needed()
    for label in (".encoded", ".raw", ".gaussian"):
        figure.locator(f"span{label}").filter(has_text="dB").wait_for(timeout=30_000)
    for slider in opened.locator("figure:not([data-figure=train]) input").all():
        for end in ("Home", "End"):
            slider.press(end)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert opened.evaluate(overflow) <= 0
    # The software renderer says that reading pixels back is slow.
    assert [text for text in messages if "GL Driver Message" not in text] == []
    assert all(url.startswith(("file:", "blob:")) for url in requests)
    opened.close()
