"""The tutorial, in cells; ``python docs/make_notebook.py`` makes the notebook of it and runs it."""

# %% [markdown]
# # Why sinusoids: a tutorial in seven experiments
#
# It follows the [article](../article.html) section by section. Each has an experiment in PyTorch
# and an exercise; try it before you read the next cell, which is the answer. It runs offline, on a
# CPU, in less than a minute.
#
# The first cell installs nerf_posenc and matplotlib if they are missing, and leaves the torch that
# is there: from the clone that the notebook lies in, or in Colab from the address of the
# repository. Where `ipywidgets` is installed, two figures have sliders.

# %%
import importlib.util
import subprocess
import sys

if not all(map(importlib.util.find_spec, ("nerf_posenc", "matplotlib"))):
    repository = ""  # In Colab: its address, such as https://github.com/OWNER/NAME
    source = f"nerf_posenc[app] @ git+{repository}" if repository else "../..[app]"
    wanted = [source, "matplotlib"]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *wanted], check=True)

# %%
import time

import matplotlib.pyplot as plt
import torch
from torch import nn

from nerf_posenc import FourierEncoder, SinusoidalEncoder, geometric_bands
from nerf_posenc.core.encoder import Identity
from nerf_posenc.images import Image
from nerf_posenc.networks.mlp import MLP
from nerf_posenc.radiance.volume_rendering import weights_from_density
from nerf_posenc_app.data import open_image

try:
    from ipywidgets import IntSlider, interact
except ImportError:
    interact = None

plt.rcParams.update({"figure.dpi": 72, "font.size": 9, "image.interpolation": "nearest"})
started = time.perf_counter()

# %% [markdown]
# ## 1. A network that cannot draw a cat
#
# A network of three hidden layers is asked for the color of each pixel of a small cat: once it is
# given the coordinates, once their sines and cosines. Nothing else differs. (It is larger than
# those of the article, ends in a sigmoid, and sees all pixels at each step.)


# %%
def fit(encoder, inputs, targets, *, steps, width=64, record=None):
    """Fit a small network on top of an encoder, with the same seed and optimizer each time."""
    generator = torch.Generator().manual_seed(0)
    network = MLP(encoder.out_dim, targets.shape[1], width=width, depth=3, generator=generator)
    # The network ends in a sigmoid: it computes values in [0, 1].
    model = nn.Sequential(encoder, network)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(steps):
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if record is not None:
            record(model)
    return model


cat = open_image("cat").rgb[:, 75:375]
image = Image.from_rgb(cat, name="cat").resized(64)
height, width, _ = image.rgb.shape
pixels, colors = image.coordinates.reshape(-1, 2), image.rgb.reshape(-1, 3)

shown = {"original": image.rgb}
for name, encoder in (("raw coordinates", Identity(2)), ("5 bands", FourierEncoder(2, 5))):
    model = fit(encoder, pixels, colors, steps=200, width=96)
    rgb = model(pixels).detach().reshape(height, width, 3)
    psnr = -10 * (rgb - image.rgb).square().mean().log10()
    shown[f"{name}, {psnr:.1f} dB"] = rgb

_, axes = plt.subplots(1, 3, figsize=(9, 3.1))
for axis, (title, rgb) in zip(axes, shown.items(), strict=True):
    axis.imshow(rgb)
    axis.set_title(title)
    axis.axis("off")
plt.show()

# %% [markdown]
# **Exercise.** Is it a lack of parameters? Give the network on raw coordinates twice the width.

# %%
for name, encoder, units in (
    ("raw coordinates", Identity(2), 192),
    ("5 bands", FourierEncoder(2, 5), 96),
):
    model = fit(encoder, pixels, colors, steps=200, width=units)
    psnr = -10 * (model(pixels) - colors).square().mean().log10()
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{name}: {size:,} parameters, {psnr:.1f} dB after 200 steps")

# %% [markdown]
# Twice the width hardly helps; the encoded network is far ahead with less than a third of the
# parameters.
#
# ## 2. Why: the kernel
#
# To see what is missing, take a signal that is a sum of six sines of equal size, one in each
# octave: $\sin 2^k \pi x$ for $k = 0 \dots 5$. The columns of `FourierEncoder(1, 6)` are these
# sines and their cosines, so the encoder can make the signal too.

# %%
x = torch.linspace(-1, 1, 256)[:, None]
sines = FourierEncoder(1, 6, layout="pka")(x)[:, :6]
signal = sines.mean(1, keepdim=True)

plt.figure(figsize=(8, 2))
plt.plot(x, signal, "k")
plt.xlabel("x")
plt.title("six octaves, equally strong")
plt.show()

# %% [markdown]
# After each step we project what the network computes on each sine: 1 means that this octave is
# recovered, 0 that it is missing.


# %%
def recovered_octaves(encoder, *, steps=400, width=64):
    """Fit the signal; return the fit and the share of each octave after each step."""
    shares = []

    @torch.no_grad()
    def record(model):
        fitted = 2 * model(x) - 1
        shares.append((fitted * sines).sum(0) / (signal * sines).sum(0))

    model = fit(encoder, x, (signal + 1) / 2, steps=steps, width=width, record=record)
    return 2 * model(x).detach() - 1, torch.stack(shares)


def show_octaves(fitted, shares, title):
    """The fit beside the signal, and the octaves over the steps."""
    _, (left, right) = plt.subplots(1, 2, figsize=(10, 2.6), width_ratios=(3, 2))
    left.plot(x, signal, "k", alpha=0.4, label="signal")
    left.plot(x, fitted, "C1", label=title)
    left.legend(loc="lower right")
    left.set_xlabel("x")
    shown = right.imshow(shares.T, aspect="auto", vmin=0, vmax=1, origin="lower")
    right.set(xlabel="step", ylabel="octave k", title="recovered, by octave")
    plt.colorbar(shown)
    plt.show()


raw_fit, raw_shares = recovered_octaves(Identity(1))
show_octaves(raw_fit, raw_shares, "raw coordinate")
print("recovered, by octave:", *[f"{share:.2f}" for share in raw_shares[-1]])

# %% [markdown]
# The octaves light up from the bottom, and the top ones hardly at all: this is *spectral bias*.
# With equation 4 of NeRF before the same network, the same optimizer and the same seed, it is gone:
# $\gamma(x) = (\sin 2^0 \pi x, \cos 2^0 \pi x, \dots, \sin 2^{L-1} \pi x, \cos 2^{L-1} \pi x)$.

# %%
encoded_fit, encoded_shares = recovered_octaves(FourierEncoder(1, 6))
show_octaves(encoded_fit, encoded_shares, "6 frequency bands")
print("recovered, by octave:", *[f"{share:.2f}" for share in encoded_shares[-1]])

# %% [markdown]
# The number of bands decides which octaves can be learned:


# %%
def show_bands(bands):
    """Fit with so many bands."""
    show_octaves(*recovered_octaves(FourierEncoder(1, bands), steps=150), f"{bands} bands")


if interact is not None:
    interact(show_bands, bands=IntSlider(3, 1, 8, continuous_update=False))
else:
    show_bands(3)

# %% [markdown]
# The inner product of the features of two points depends on their distance alone. It says how far
# a change at one point spreads to others while the network is trained: the *kernel*. With few bands
# it is wide, with more it is narrow, but a neighbor is never left alone.

# %%
distance = torch.linspace(-1, 1, 801)[:, None]


def show_kernels(*choices):
    """Draw the kernel of each number of bands."""
    plt.figure(figsize=(8, 2.6))
    for bands in choices:
        encoder = FourierEncoder(1, bands)
        similarity = encoder(distance) @ encoder(torch.zeros(1, 1)).T / bands
        plt.plot(distance, similarity, label=f"L = {bands}")
    plt.xlabel("distance of two points")
    plt.ylabel("similarity")
    plt.legend()
    plt.show()


if interact is not None:
    interact(lambda bands: show_kernels(bands), bands=IntSlider(4, 1, 10))
else:
    show_kernels(1, 3, 6)

# %% [markdown]
# **Exercise.** With 8 bands, how similar is the next pixel of a 256-pixel image? A pixel at a
# distance of 1, half the image away? And at 2, the other edge?

# %%
eight = FourierEncoder(1, 8)
for distance_asked in (1 / 128, 1.0, 2.0):
    a, b = eight(torch.tensor([[0.1], [0.1 + distance_asked]]))
    print(f"distance {distance_asked:.4g}: similarity {float(a @ b) / 8:.2f}")

# %% [markdown]
# There are side lobes, and the space wraps: to the encoding, -1 and 1 are the same.
#
# ## 3. From $2^k$ to 10,000
#
# A Transformer has the opposite problem: its positions 0, 1, 2, ... must be told apart, over
# thousands of tokens. It takes the same sinusoids: not frequencies $2^k \pi$ that rise from
# $\pi$, but frequencies $10000^{-2i/d}$ that fall from 1, so that the wavelengths grow from
# $2\pi$ towards 62,832 positions (47,117 for d = 64). With these bands the
# Fourier encoder of a coordinate *is* the sinusoidal encoder of a position, to the bit.

# %%
positions = torch.arange(200.0)
sinusoidal = SinusoidalEncoder(64)(positions)
fourier = FourierEncoder(1, frequencies=geometric_bands(32))(positions[:, None])
print("equal to the bit:", torch.equal(sinusoidal, fourier))

_, (left, right) = plt.subplots(1, 2, figsize=(10, 2.8), width_ratios=(3, 2))
left.imshow(sinusoidal.T, aspect="auto", cmap="RdBu")
left.set(xlabel="position", ylabel="column", title="SinusoidalEncoder(64)")
right.plot(sinusoidal @ sinusoidal[100] / 32)
right.set(xlabel="position", title="similarity to position 100")
plt.show()

# %% [markdown]
# **Exercise.** Why does a Transformer not take NeRF's bands? Encode the positions 2 and 4.

# %%
two, four = FourierEncoder(1, 6)(torch.tensor([[2.0], [4.0]]))
print("largest difference:", float((two - four).abs().max()))

# %% [markdown]
# At integers every sine is 0 and every cosine 1 or -1.
#
# ## 4. The shift is a rotation
#
# One matrix turns the embedding of any position into that of the position five later, so that
# attention can learn "five tokens back" with a linear layer:

# %%
wide = positions.double()
encoder = SinusoidalEncoder(64)
error = (encoder(wide) @ encoder.shift_matrix(5).T - encoder(wide + 5)).abs().max()
print(f"largest error of the shift by 5: {error:.0e}")

# %% [markdown]
# **Exercise.** Make the head that attends two tokens back: let the query be $T(-2) p(t)$ and the
# key $p(s)$. Which weight does position 18 get from the query at 20, among 50 keys? And with
# queries of 16 times the size?

# %%
keys = encoder(wide[:50])
query = encoder.shift_matrix(-2) @ encoder(wide[20])
for scale in (1, 16):
    weights = torch.softmax(scale * keys @ query / 64**0.5, dim=0)
    print(
        f"scale {scale}: the largest weight is that of {int(weights.argmax())}, {weights[18]:.2f}"
    )

# %% [markdown]
# The largest, but not by much: "can" is a statement of linear algebra, the sharpness is learned.
#
# ## 5. Add
#
# Added to a random word of the same norm, 128 columns wide, is the position still there?

# %%
codes = SinusoidalEncoder(128)(torch.arange(64.0))
words = (
    nn.functional.normalize(
        torch.randn(5000, 128, generator=torch.Generator().manual_seed(0)), dim=1
    )
    * 8
)
drawn = torch.randint(64, (5000,), generator=torch.Generator().manual_seed(1))
read = ((codes[drawn] + words) @ codes.T).argmax(1)
print(f"position read from the sum: {100 * (read == drawn).float().mean():.0f}%")

# %% [markdown]
# ## 6. Coarse to fine
#
# Two copies of a row of the cat lie on each other, so the right shift is 0. We begin 19 pixels off
# and look for it by gradient descent. With 24 of the row's 32 frequencies the loss has many
# valleys.

# %%
row = image.rgb[36, :, 0]
spectrum = torch.fft.rfft(row - row.mean())
frequencies = torch.arange(len(spectrum))


def loss_of(shift, most):
    """Squared error of the row shifted in a circle, with frequencies up to a number."""
    moved = spectrum * torch.exp(-2j * torch.pi * frequencies * shift / len(row))
    return ((moved - spectrum).abs().square() * (frequencies <= most)).sum()


def descend(most_at, steps=300):
    """Shift at which descent from 19 ends, with ``most_at(progress)`` frequencies at each step."""
    shift = torch.tensor(19.0, requires_grad=True)
    optimizer = torch.optim.Adam([shift], lr=0.2)
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(shift, most_at(step / steps)).backward()
        optimizer.step()
    return float(shift.detach())


shifts = torch.linspace(-31, 31, 249)
plt.figure(figsize=(8, 2.6))
for most in (1, 4, 24):
    losses = torch.stack([loss_of(shift, most) for shift in shifts])
    plt.plot(shifts, losses / losses.max(), label=f"frequencies to {most}")
plt.xlabel("shift")
plt.ylabel("loss / its largest")
plt.legend()
plt.show()
print(f"24 frequencies from the beginning: {abs(descend(lambda progress: 24)):.2f} pixels off")

# %% [markdown]
# **Exercise.** Open the frequencies one after the other, so that the shift is found.

# %%
eased = descend(lambda progress: max(1, 24 * (1.5 * progress - 0.5)))
print(f"1 for a third of the way, then more up to 24: {abs(eased):.2f} pixels off")

# %% [markdown]
# BARF does this to camera poses; `coarse_to_fine_weight` is its window on the bands.
#
# ## 7. Then, NeRF
#
# A ray collects the light of what it passes, with the weights
# $w_i = T_i (1 - e^{-\sigma_i \delta_i})$, where $T_i$ is what everything before it lets through.

# %%
distances = torch.linspace(0, 4, 401)[:-1] + 0.005  # The middle of each interval.
density = torch.where((distances - 2).abs() < 0.5, 3.0, 0.0)
weights = weights_from_density(density, torch.full_like(density, 0.01))
plt.figure(figsize=(8, 2))
plt.plot(distances, density, "k", alpha=0.4, label="density")
plt.plot(distances, 100 * weights, "C1", label="weight per unit of length")
plt.xlabel("distance along the ray")
plt.legend()
plt.show()

# %% [markdown]
# **Exercise.** How much of the background is seen through this fog of density 3 and thickness 1?
# Compute it in two ways.

# %%
print(
    f"{1 - float(weights.sum()):.4f} of the ray is left, exp(-3) = {torch.tensor(-3.0).exp():.4f}"
)

# %% [markdown]
# ## Go on
#
# - `python train_fit.py --image photo.jpg --bands 10` does section 1 with your photograph, and
#   makes a page of it.
# - `python train_fit.py --sequence topics` trains a Transformer without and with positions.
# - The documentation's page *Why sinusoids* checks what is usually said.
# - [Tancik et al. 2020](https://arxiv.org/abs/2006.10739) derive the kernel; [Mildenhall et al.
#   2020](https://arxiv.org/abs/2003.08934) and [Vaswani et al.
#   2017](https://arxiv.org/abs/1706.03762) introduced the two encodings.

# %%
print(f"the notebook took less than {10 * (1 + (time.perf_counter() - started) // 10):.0f} s")
