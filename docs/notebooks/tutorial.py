"""The tutorial, in cells; ``python docs/make_notebook.py`` makes the notebook of it and runs it."""

# %% [markdown]
# # Why sinusoids: a tutorial in five small fits
#
# A small network on raw coordinates learns low frequencies first. This notebook shows it, repairs
# it with a positional encoding, explains the repair by a kernel, and ends with the same sinusoids
# in a Transformer. It runs offline, on a CPU, in less than a minute.
#
# It needs `pip install -e '.[app]'` in a clone of nerf_posenc, and Jupyter. Where `ipywidgets` is
# installed, two figures have sliders.

# %%
import time

import matplotlib.pyplot as plt
import skimage.data
import torch
from torch import nn

from nerf_posenc import FourierEncoder, SinusoidalEncoder, geometric_bands
from nerf_posenc.core.encoder import Identity
from nerf_posenc.images import Image
from nerf_posenc.networks.mlp import MLP

try:
    from ipywidgets import IntSlider, interact
except ImportError:
    interact = None

plt.rcParams.update({"figure.dpi": 72, "font.size": 9, "image.interpolation": "nearest"})
started = time.perf_counter()

# %% [markdown]
# ## 1. A signal with six octaves
#
# The signal is a sum of six sines of equal size, one in each octave: $\sin 2^k \pi x$ for
# $k = 0 \dots 5$. The columns of `FourierEncoder(1, 6)` are these sines and their cosines, so the
# encoder can make the signal too.

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
# ## 2. Raw coordinates: low frequencies first
#
# A network of three hidden layers is fitted to the 256 samples. After each step we project what it
# computes on each sine: 1 means that this octave is recovered, 0 that it is missing.


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


def recovered_octaves(encoder, steps=400):
    """Fit the signal; return the fit and the share of each octave after each step."""
    shares = []

    @torch.no_grad()
    def record(model):
        fitted = 2 * model(x) - 1
        shares.append((fitted * sines).sum(0) / (signal * sines).sum(0))

    model = fit(encoder, x, (signal + 1) / 2, steps=steps, record=record)
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
# The octaves light up from the bottom, and the top ones hardly at all: this is *spectral bias*. It
# is not a lack of parameters, which the next fit shows with the same network.
#
# ## 3. Encode the coordinate, and it is gone
#
# $\gamma(x) = (\sin 2^0 \pi x, \cos 2^0 \pi x, \dots, \sin 2^{L-1} \pi x, \cos 2^{L-1} \pi x)$,
# equation 4 of NeRF, before the same network, the same optimizer, the same seed.

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
# ## 4. The same for an image
#
# The x and y of each pixel are encoded separately and concatenated. Nothing else changes.

# %%
cat = torch.from_numpy(skimage.data.chelsea()[:, 75:375]).float() / 255
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
# ## 5. Why it works: the kernel
#
# The inner product of the features of two points depends on their distance alone. It says how far
# a change at one point spreads to others while the network is trained. With few bands it is wide:
# a pixel cannot change without its neighbors. With more it is narrow. If it is narrower than the
# spacing of the samples, nothing is known between them. That is the choice that `--bands` makes.

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
# ## 6. A Transformer's positions are the same thing
#
# A Transformer has the opposite problem: its positions 0, 1, 2, ... must be told apart, over
# thousands of tokens. It takes the same sinusoids at other frequencies: not $2^k \pi$ rising from
# one period, but $10000^{-2i/d}$ falling to wavelengths of 62,832 positions. With these bands the
# Fourier encoder of a coordinate *is* the sinusoidal encoder of a position, to the bit.

# %%
positions = torch.arange(200.0)
sinusoidal = SinusoidalEncoder(64)(positions)
fourier = FourierEncoder(1, bands=geometric_bands(64))(positions[:, None])
print("equal to the bit:", torch.equal(sinusoidal, fourier))

_, (left, right) = plt.subplots(1, 2, figsize=(10, 2.8), width_ratios=(3, 2))
left.imshow(sinusoidal.T, aspect="auto", cmap="RdBu")
left.set(xlabel="position", ylabel="column", title="SinusoidalEncoder(64)")
right.plot(sinusoidal @ sinusoidal[100] / 32)
right.set(xlabel="position", title="similarity to position 100")
plt.show()

# %% [markdown]
# The right figure is the kernel again: similarity depends on the offset alone. One matrix turns
# the embedding of any position into that of the position five later, so that attention can learn
# "five tokens back" with a linear layer:

# %%
wide = positions.double()
encoder = SinusoidalEncoder(64)
error = (encoder(wide) @ encoder.shift_matrix(5).T - encoder(wide + 5)).abs().max()
print(f"largest error of the shift by 5: {error:.0e}")

# %% [markdown]
# ## Go on
#
# - `python train_fit.py --image photo.jpg --bands 10` does section 4 with your photograph, and
#   makes a page of it.
# - `python train_fit.py --sequence docstrings` trains a Transformer without and with positions.
# - The documentation's page *Why sinusoids* has the argument from the beginning.
# - [Tancik et al. 2020](https://arxiv.org/abs/2006.10739) derive the kernel; [Mildenhall et al.
#   2020](https://arxiv.org/abs/2003.08934) and [Vaswani et al.
#   2017](https://arxiv.org/abs/1706.03762) introduced the two encodings.

# %%
print(f"the notebook took less than {10 * (1 + (time.perf_counter() - started) // 10):.0f} s")
