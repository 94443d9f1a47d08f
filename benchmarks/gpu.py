"""What the encoder and the training step reach of a GPU's limits, in one command.

It first checks the encoder against float64, then measures the card's own limits (copy bandwidth,
bfloat16 matrix peak) and reports all else as a share of them, beside the eager forms of other
libraries and what ``torch.compile`` makes of all of them. ``--tiny`` runs it through on a CPU, to
see that it works; its figures then mean nothing.
"""

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._functorch.config
from torch import Tensor, nn

import nerf_posenc_app
from benchmarks.radiance import FIELDS
from benchmarks.timing import machine
from nerf_posenc import FourierEncoder, HashGridEncoder
from nerf_posenc.core import SinCos, octave_bands
from nerf_posenc.metrics.image import psnr
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.radiance.build import make_renderer
from nerf_posenc.radiance.occupancy import visual_hull
from nerf_posenc.training import recipes
from nerf_posenc.training.batches import ShuffledBatches
from nerf_posenc.training.coordinate_model import CoordinateModel
from nerf_posenc.training.corner_cache import cache_corners
from nerf_posenc.training.cuda_graph import CapturedStep
from nerf_posenc.training.devices import autocast
from nerf_posenc.training.loop import FitState, fit, mse, predict
from nerf_posenc_app.data import open_image, open_scene

# README of tiny-cuda-nn (RTX 3090, read off its plot): training samples per second by width and
# batch, fully fused network without an encoding.
PUBLISHED = {(64, 1 << 14): 1.2e8, (64, 1 << 18): 1.9e8, (128, 1 << 18): 9.4e7}


def seconds_of(call: Callable[[], object], device: torch.device, rounds: int) -> float:
    """Median seconds of a call, by the device's own clock where it has one."""
    for _ in range(5):
        call()
    times = []
    for _ in range(rounds):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
    return float(statistics.median(times))


def nerf_pytorch(x: Tensor, octaves: Tensor) -> Tensor:
    return torch.cat([f(x * octave) for octave in octaves for f in (torch.sin, torch.cos)], -1)


def nerfstudio(x: Tensor, octaves: Tensor) -> Tensor:
    scaled = ((2 * torch.pi * x)[..., None] * octaves).flatten(-2)
    return torch.sin(torch.cat([scaled, scaled + torch.pi / 2], -1))


def pytorch3d(x: Tensor, octaves: Tensor) -> Tensor:
    embedded = (x[..., None] * octaves).flatten(-2)
    return torch.cat([embedded, embedded + torch.pi / 2], -1).sin()


def check(device: torch.device, rows: int) -> dict[str, float]:
    """Largest errors of float32 coordinates against float64."""
    errors = {}
    for name, base in (("pi 2^k", torch.pi), ("2^k", 1.0)):
        encoder = FourierEncoder(3, 16, base=base).to(device)
        x = (torch.rand(rows, 3, device=device) * 2 - 1).requires_grad_()
        wide = x.detach().double().requires_grad_()
        expected = encoder(wide)
        upstream = torch.randn_like(expected)
        (exact_grad,) = torch.autograd.grad(expected, wide, upstream)
        forms: dict[str, Callable[[Tensor], Tensor]] = {name: encoder}
        if device.type == "cuda":
            forms[f"{name}, compiled"] = torch.compile(encoder)
        for form, run in forms.items():
            features = run(x)
            errors[form] = (features.double() - expected).abs().max().item()
            (grad,) = torch.autograd.grad(features, x, upstream.float())
            error = (grad.double() - exact_grad).norm() / exact_grad.norm()
            errors[f"{form}, gradient (relative)"] = error.item()
    for name, error in errors.items():
        print(f"error, {name:<40} {error:.1e}")
    return errors


def limits(device: torch.device, megabytes: int, side: int, rounds: int) -> tuple[float, float]:
    """Copy bandwidth in bytes a second, read and written, and bfloat16 multiply-adds times 2."""
    source = torch.randn(megabytes << 18, device=device)
    target = torch.empty_like(source)
    copy = 2 * source.nbytes / seconds_of(lambda: target.copy_(source), device, rounds)
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    peak = 2 * side**3 / seconds_of(lambda: a @ b, device, rounds)
    print(f"copy {copy / 1e9:,.0f} GB/s, bfloat16 products {peak / 1e12:,.1f} TFLOP/s")
    return copy, peak


def encoders(
    device: torch.device, copy: float, points: list[int], rounds: int
) -> Iterator[dict[str, Any]]:
    """Bandwidth of every form: coordinates read once and features written once."""
    heads = f"{'forward GB/s':>13} {'of copy':>8} {'backward':>9} {'of copy':>8}"
    print(f"\n{'':<34} {'points':>10} {heads}")
    num_bands = 10
    octaves = 2.0 ** torch.arange(num_bands, device=device)
    for in_dim in (2, 3):
        ours = SinCos(in_dim, octave_bands(num_bands)).to(device)
        forms: dict[str, Callable[[Tensor], Tensor]] = {
            "ours": ours,
            "ours, to bfloat16": partial(ours, out_dtype=torch.bfloat16),
        }
        if device.type == "cuda":
            forms |= {f"{name}, compiled": torch.compile(f) for name, f in list(forms.items())}
        for library in (nerf_pytorch, nerfstudio, pytorch3d):
            eager = _encoding(library, octaves)
            forms[library.__name__] = eager
            if device.type == "cuda":
                forms[f"{library.__name__}, compiled"] = torch.compile(eager)
        for num_points in points:
            x = torch.rand(num_points, in_dim, device=device) * 2 - 1
            for name, form in forms.items():
                try:
                    row = _bandwidth(form, x, copy, device, rounds)
                except torch.OutOfMemoryError:
                    row = {"forward": math.nan, "backward": math.nan}
                yield dict(form=name, in_dim=in_dim, bands=num_bands, points=num_points, **row)
                print(
                    f"{name:<26} {in_dim}-D L={num_bands:<2} {num_points:>10,} "
                    f"{row['forward'] / 1e9:13,.0f} {row['forward'] / copy:8.0%} "
                    f"{row['backward'] / 1e9:9,.0f} {row['backward'] / copy:8.0%}",
                    flush=True,
                )


def _encoding(
    library: Callable[[Tensor, Tensor], Tensor], octaves: Tensor
) -> Callable[[Tensor], Tensor]:
    """A library's form as a function of the coordinates, which compiles on its own."""

    def encoding(x: Tensor) -> Tensor:
        return library(x, octaves)

    return encoding


def _bandwidth(
    form: Callable[[Tensor], Tensor], x: Tensor, copy: float, device: torch.device, rounds: int
) -> dict[str, float]:
    with torch.no_grad():
        moved = x.nbytes + form(x).nbytes
        forward = moved / seconds_of(lambda: form(x), device, rounds)
    wanted = x.detach().requires_grad_()
    features = form(wanted)
    upstream = torch.randn_like(features)
    backward = seconds_of(
        lambda: torch.autograd.grad(features, wanted, upstream, retain_graph=True), device, rounds
    )
    return {"forward": forward, "backward": (moved + x.nbytes) / backward}


def training(
    device: torch.device, peak: float, sizes: list[tuple[int, int]], rounds: int
) -> Iterator[dict[str, Any]]:
    """Steps per second of 10 bands and 4 hidden layers in bfloat16, and the share of the peak."""
    print(
        f"\n{'training step':<20} {'width':>6} {'batch':>10} {'steps/s':>9} {'samples/s':>10} "
        f"{'of peak':>8} {'published':>10}"
    )
    forms = ("eager", "captured", "captured, compiled") if device.type == "cuda" else ("eager",)
    for (width, batch), optimizer, form in itertools.product(sizes, ("adam", "muon"), forms):
        encoder = FourierEncoder(2, 10)
        network = MLP(encoder.out_dim, 3, width=width, depth=4)
        model = nn.Sequential(encoder, network).to(device)
        run = torch.compile(model, dynamic=False) if form.endswith("compiled") else model
        x, y = torch.rand(batch, 2, device=device), torch.rand(batch, 3, device=device)
        step = _training_step(model, optimizer, run, device, captured=form != "eager")
        took = seconds_of(partial(step, (x, y)), device, rounds)
        # A product and its two gradients; nothing follows the coordinates.
        layers = [encoder.out_dim, *[width] * 4, 3]
        products = sum(a * b for a, b in itertools.pairwise(layers))
        share = (6 * products - 2 * layers[0] * layers[1]) * batch / took / peak
        published = PUBLISHED.get((width, batch))
        yield dict(
            form=form, optimizer=optimizer, width=width, batch=batch, seconds=took, share=share
        )
        print(
            f"{optimizer}, {form:<20} {width:>6} {batch:>10,} {1 / took:9,.0f} "
            f"{batch / took:10.2e} "
            f"{share:8.0%} {'' if published is None else f'{published:.1e}':>10}",
            flush=True,
        )


def _training_step(
    model: nn.Module, optimizer: str, run: Any, device: torch.device, *, captured: bool
) -> Callable[[Any], Tensor]:
    """A step as `fit` takes it."""
    lr = recipes.default_lr(optimizer)
    group = recipes.make_optimizer(model, optimizer, lr)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        group.zero_grad()
        with autocast(device, torch.bfloat16):
            prediction = run(x)
        loss = mse(prediction, y)
        loss.backward()
        group.step()
        return loss.detach()

    if not captured:
        return step
    group.make_capturable(device)
    return CapturedStep(step, device)


def time_to(
    decibel: float, device: torch.device, size: int, most: float
) -> Iterator[dict[str, Any]]:
    """Seconds until a whole image of ``size`` x ``size`` reaches ``decibel``."""
    image = open_image("cat").resized(size)
    x = image.coordinates.reshape(-1, 2).to(device)
    y = image.rgb.reshape(-1, 3).to(device)
    print(f"\n{'image':<26} {'steps':>8} {'seconds':>8}  to {decibel:g} dB")
    for encoding in ("fourier", "hash"):
        generator = torch.Generator().manual_seed(0)
        description = CoordinateModel(encoding, resolution=size)
        encoder = recipes.make_encoder(description, generator)
        width, depth = description.layers
        network = MLP(encoder.out_dim, 3, width=width, depth=depth, generator=generator)
        network.start_at(image.rgb.mean((0, 1)))
        model = nn.Sequential(encoder, network).to(device)
        lr = recipes.default_lr("muon", encoding)
        optimizer = recipes.make_optimizer(model, "muon", lr, encoding=encoding)
        state = FitState(model, optimizer, 4000)
        reached: list[float] = []

        def look(state: FitState, model: nn.Module = model, reached: list[float] = reached) -> None:
            if psnr(predict(model, x, chunk_size=1 << 18), y) >= decibel:
                reached.append(state.seconds)

        batches = ShuffledBatches(x, y, min(len(x), 65_536), seed=0)
        draw_batch, forward = cache_corners(encoder, network, batches)

        def stop(state: FitState = state, reached: list[float] = reached) -> bool:
            return bool(reached) or state.seconds > most

        fit(
            state,
            draw_batch,
            forward=forward,
            autocast_dtype=None if encoding == "hash" else torch.bfloat16,
            captured=True,
            on_record=look,
            should_stop=stop,
        )
        took = reached[0] if reached else None
        yield dict(encoding=encoding, steps=state.step, seconds=took)
        print(
            f"{encoding:<26} {state.step:>8,} {'-' if took is None else f'{took:.2f}':>8}",
            flush=True,
        )


def grids(
    device: torch.device, points: list[int], rounds: int, steps: int
) -> Iterator[dict[str, Any]]:
    """Times of tiny-cuda-nn's default grid, and of a training step with it, of random values."""
    print(f"\n{'16 levels of 2, 2^19 rows':<26} {'points':>10} {'ms':>8}")
    for num_points, compiled in itertools.product(points, (False, True)):
        if compiled and device.type != "cuda":
            continue
        encoder = HashGridEncoder(3, growth=1.5).to(device)
        form = torch.compile(encoder) if compiled else encoder
        x, y = (torch.rand(num_points, 3, device=device) for _ in range(2))
        with torch.no_grad():
            times = {"forward": seconds_of(partial(form, x), device, rounds)}
        features = form(x)
        upstream, tables = torch.randn_like(features), [*encoder.parameters()]
        backward = partial(torch.autograd.grad, features, tables, upstream, retain_graph=True)
        times["backward"] = seconds_of(backward, device, rounds)
        if not compiled:
            # As `fit` takes it: rows drawn from a permutation, losses recorded, captured.
            model = nn.Sequential(encoder, MLP(encoder.out_dim, 3, width=64, depth=2)).to(device)
            optimizer = recipes.make_optimizer(model, "muon", recipes.default_lr("muon", "hash"))
            batches = ShuffledBatches(x, y, num_points // 4, seed=0)
            state = fit(FitState(model, optimizer, steps), batches, captured=True)
            times["step of a quarter"] = state.seconds / steps
        yield dict(points=num_points, compiled=compiled, **times)
        for what, took in times.items():
            name = f"{what}{', compiled' if compiled else ''}"
            print(f"{name:<26} {num_points:>10,} {1e3 * took:8.2f}", flush=True)


def scene(device: torch.device, folder: str, size: int, seconds: float) -> Iterator[dict[str, Any]]:
    """PSNR of the test views of a scene after a while, by ``--field auto``."""
    fitted = nerf_posenc_app.fit(
        scene=folder, size=size, field="auto", seconds=seconds, device=str(device), quiet=True
    )
    yield dict(scene=folder, size=size, seconds=seconds, scores=fitted.scores)
    print(f"\n{folder}, {size} pixels, {seconds:g} s: {fitted.scores}", flush=True)


def fields(device: torch.device, size: int, batch: int, steps: int) -> Iterator[dict[str, Any]]:
    """Seconds of a training step of each radiance field, and the operations that take most."""
    scene = open_scene("spheres", size=size)
    for name, options in FIELDS.items():
        renderer = make_renderer(options, scene.train, hull=visual_hull(scene.train)).to(device)
        batches = renderer.batches(scene.train, batch, seed=0, device=device)
        optimizer = renderer.make_optimizer("muon")
        train = partial(
            fit,
            draw_batch=batches,
            loss_fn=renderer.loss,
            forward=renderer.render_batch,
            autocast_dtype=torch.bfloat16,
            captured=renderer.has_fixed_shapes,
            after_step=renderer.after_step(autocast_dtype=torch.bfloat16),
        )
        train(FitState(renderer, optimizer, steps))
        state = train(FitState(renderer, optimizer, steps))
        with torch.profiler.profile() as profiled:
            train(FitState(renderer, optimizer, 10))
        column = f"self_{device.type}_time_total"
        table = profiled.key_averages().table(sort_by=column, row_limit=8, max_name_column_width=60)
        yield dict(field=name, seconds=state.seconds / steps, operations=table)
        print(f"\n{name}: {1e3 * state.seconds / steps:.2f} ms for {batch:,} rays\n{table}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="run through on a CPU")
    parser.add_argument("--only", nargs="+", help="sections, as in the record")
    parser.add_argument("--scene", default="spheres", help="folder, or a built-in scene")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu.json"))
    options = parser.parse_args()
    tiny = options.tiny
    device = torch.device("cpu" if tiny else "cuda")
    # Each form is compiled for many sizes; by default torch would run the ninth eagerly.
    torch._dynamo.config.recompile_limit = 1 << 10
    # Backward passes are repeated on one graph.
    torch._functorch.config.donated_buffer = False
    rounds = 1 if tiny else options.rounds
    name = "CPU: figures mean nothing" if tiny else torch.cuda.get_device_name()
    print(f"{machine()}; {name}")
    errors = check(device, 100 if tiny else 1 << 20)
    copy, peak = limits(device, 1 if tiny else 1024, 64 if tiny else 8192, rounds)
    points = [64] if tiny else [1 << n for n in (16, 20, 24)]
    record: dict[str, Any] = {"machine": machine(), "device": name, "errors": errors}
    record |= {"copy_bytes_per_second": copy, "bfloat16_flops": peak}
    sizes = [(64, 64)] if tiny else [(64, 1 << 14), (64, 1 << 18), (256, 1 << 16)]
    sections = {
        "encoders": encoders(device, copy, points, rounds),
        "training": training(device, peak, sizes, rounds),
        "fields": fields(device, 16 if tiny else 200, 64 if tiny else 8192, 10 if tiny else 100),
        "grids": grids(device, [64] if tiny else [1 << 18, 1 << 22], rounds, 2 if tiny else 50),
        "scene": scene(device, options.scene, 16 if tiny else 400, 1 if tiny else 60),
        "image": time_to(15 if tiny else 40, device, 16 if tiny else 512, 60),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for section, rows in sections.items():
        if options.only and section not in options.only:
            continue
        record[section] = []
        for row in rows:
            record[section].append(row)
            options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
