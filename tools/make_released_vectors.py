"""Add encodings of released models to tests/data/released.json, computed by their libraries.

    pip install --no-deps --target DIR diffusers==0.42.1 importlib_metadata zipp
    PYTHONPATH=DIR python -m tools.make_released_vectors

Queries are rotated by the library's own functions, with the configurations of released models.
"""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nerf_posenc import grid_positions

OUTPUT = Path(__file__).parents[1] / "tests" / "data" / "released.json"
# float32 angles of the libraries at their largest position.
TOLERANCE = 2e-5

Made = tuple[str, str, Tensor, Callable[[Tensor], Tensor]]


def grid(*shape: int) -> Tensor:
    return grid_positions(shape).flatten(0, -2)


def diffusers(name: str) -> Any:
    return importlib.import_module(f"diffusers.models.transformers.transformer_{name}")


def by_cosines(table: tuple[Tensor, Tensor], pairs: int = -1) -> Callable[[Tensor], Tensor]:
    """Rotation of diffusers by cosines and sines."""
    apply = importlib.import_module("diffusers.models.embeddings").apply_rotary_emb

    def rotate(x: Tensor) -> Tensor:
        rotated: Tensor = apply(x[None, None], table, use_real_unbind_dim=pairs)[0, 0]
        return rotated

    return rotate


def by_complex(table: Tensor) -> Callable[[Tensor], Tensor]:
    """Rotation of diffusers by complex numbers."""

    def rotate(x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * table).flatten(-2).float()

    return rotate


def of_diffusers() -> list[Made]:
    flux2 = diffusers("flux2").Flux2PosEmbed(2000, [32, 32, 32, 32])
    places = torch.nn.functional.pad(grid(4, 5), (1, 1))
    z_image = diffusers("z_image").RopeEmbedder(256.0, [32, 48, 48], [1536, 512, 512])
    lumina = diffusers("lumina2").Lumina2RotaryPosEmbed(10_000, [32, 32, 32])
    image_grid = grid(1, 3, 5)
    lumina_table = torch.cat([lumina.freqs_cis[i][image_grid[:, i]] for i in range(3)], dim=-1)
    qwen = diffusers("qwenimage").QwenEmbedRope(10_000, [16, 56, 56], scale_rope=True)
    image, _ = qwen([(1, 5, 6)], max_txt_seq_len=4)
    cogview = diffusers("cogview4").CogView4RotaryPosEmbed(128, 2, (256, 256))
    cosmos = diffusers("cosmos").CosmosRotaryPosEmbed(128)
    kandinsky = diffusers("kandinsky").Kandinsky5RoPE3D([16, 24, 24])
    axes = [torch.arange(size) for size in (2, 3, 4)]
    turns = kandinsky((1, 2, 3, 4), axes, (1.0, 2.0, 2.0)).flatten(1, 3)[0, :, 0]

    def rotate_by_matrices(x: Tensor) -> Tensor:
        rotated: Tensor = (turns * x.unflatten(-1, (-1, 1, 2))).sum(-1).flatten(-2)
        return rotated

    shape = torch.zeros(1, 16, 10, 12)
    return [
        ("flux2", "(4, 5)", torch.zeros(20, 128), by_cosines(flux2(places))),
        ("z-image", "(1, 3, 5)", torch.zeros(15, 128), by_complex(z_image(image_grid))),
        ("lumina2", "(1, 3, 5)", torch.zeros(15, 96), by_complex(lumina_table)),
        ("qwen-image", "(5, 6)", torch.zeros(30, 128), by_complex(image)),
        ("cogview4", "(5, 6)", torch.zeros(30, 128), by_cosines(cogview(shape), -2)),
        ("kandinsky5", "(2, 3, 4)", torch.zeros(24, 64), rotate_by_matrices),
        (
            "cosmos",
            "(2, 3, 4)",
            torch.zeros(24, 128),
            by_cosines(cosmos(torch.zeros(1, 16, 2, 6, 8)), -2),
        ),
    ]


def of_transformers() -> list[Made]:
    library = importlib.import_module("transformers")

    def made(
        name: str, config: Any, shape: tuple[int, ...], width: int, embedding: str, *layer: str
    ) -> Made:
        model = type(config).__module__.split(".")[-2]
        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        rotary, apply = getattr(module, embedding)(config), module.apply_rotary_pos_emb
        positions = grid(*shape)
        is_image = name == "pixtral"
        if len(shape) == 1:
            positions = positions[:, 0][None]
        elif not is_image:
            positions = positions.T[:, None]

        def rotate(x: Tensor) -> Tensor:
            tables = rotary(x[None], positions, *layer)
            more = {"unsqueeze_dim": 0} if is_image else {}
            rotated: Tensor = apply(x[None, None], x[None, None], *tables, **more)[0][0, 0]
            return rotated

        return name, str(shape), torch.zeros(len(grid(*shape)), width), rotate

    def rope(**values: Any) -> dict[str, Any]:
        return {"rope_parameters": {"rope_type": "default", **values}}

    scaled = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
    local = {"rope_type": "default", "rope_theta": 1e4}
    gemma = library.Gemma3TextConfig(
        rope_parameters={"full_attention": scaled, "sliding_attention": local}
    )
    glm = library.Glm4vTextConfig(
        **rope(rope_theta=1e4, partial_rotary_factor=0.5, mrope_section=[8, 12, 12])
    )
    ernie = library.Ernie4_5_VLMoeTextConfig(**rope(rope_theta=5e5, mrope_section=[22, 22, 20]))
    qwen = library.Qwen3_5TextConfig(
        **rope(rope_theta=1e7, partial_rotary_factor=0.25, mrope_section=[11, 11, 10])
    )
    return [
        made("gemma3", gemma, (20,), 256, "Gemma3RotaryEmbedding", "full_attention"),
        made("glm4.1v-text", glm, (2, 3, 4), 128, "Glm4vTextRotaryEmbedding"),
        made("ernie4.5-vl-text", ernie, (2, 3, 4), 128, "Ernie4_5_VLMoeTextRotaryEmbedding"),
        made("qwen3.5-text", qwen, (2, 3, 4), 256, "Qwen3_5TextRotaryEmbedding"),
        made("pixtral", library.PixtralVisionConfig(), (4, 5), 64, "PixtralVisionRotaryEmbedding"),
    ]


def stored(value: Tensor) -> dict[str, Any]:
    # Seven digits hold a float32 to its last bit but one.
    data = [float(f"{number:.8g}") for number in value.flatten().tolist()]
    return {"dtype": "float32", "shape": list(value.shape), "data": data}


def main() -> None:
    kept = {vector["name"]: vector for vector in json.loads(OUTPUT.read_text())}
    generator = torch.Generator().manual_seed(0)
    for library, rows in (("diffusers", of_diffusers()), ("transformers", of_transformers())):
        version = importlib.import_module(library).__version__
        for name, shape, like, rotate in rows:
            x = torch.randn(like.shape, generator=generator)
            line = f'RotaryEncoder.preset("{name}").rotate(x, ROTARY["{name}"].positions({shape}))'
            kept[name] = {
                "name": name, "library": library, "version": version, "call": shape,
                "x": stored(x), "args": {}, "y": stored(rotate(x)),
                "tolerance": TOLERANCE, "line": line,
            }  # fmt: skip
    OUTPUT.write_text(json.dumps([*kept.values()]))


if __name__ == "__main__":
    main()
