"""Mutations of bytes and of JSON values, drawn from a random number generator."""

import random
import struct
import zlib
from collections.abc import Sequence
from typing import Any

_NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 32767, 65535, 65536, 2**24, 2**31 - 1, 2**32 - 1]

HOSTILE_TEXTS = [
    *("", " ", ".", "..", "../..", "/etc/passwd", "../none", "a/b", "a\\b", "\0", "x" * 5000),
    *("\x1b[31mred", "caf\udce9", "日本", "<script>alert(1)</script>", "{}", "NaN", "-1", "1e999"),
]
HOSTILE_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.0, -0.0, 0.5, 1e-300, 1e300),
    *(float("nan"), float("inf"), float("-inf"), [], [[]], {}, {"a": 1}, [0] * 1000, [None]),
    *HOSTILE_TEXTS,
]


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Damage bytes in one to four ways."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not result:
            break
        # Headers are short and decide most.
        near = min(len(result), rng.choice((16, 64, 256, len(result))))
        at = rng.randrange(near)
        kind = rng.randrange(8)
        if kind == 0:
            result[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            result[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            layout = rng.choice(("<H", ">H", "<I", ">I"))
            number = rng.choice(_NUMBERS) % (1 << 8 * struct.calcsize(layout))
            result[at : at + struct.calcsize(layout)] = struct.pack(layout, number)
        elif kind == 3:
            del result[rng.randrange(len(result)) :]
        elif kind == 4:
            length = rng.randrange(1, 64)
            result[at:at] = result[at : at + length]
        elif kind == 5:
            del result[at : at + rng.randrange(1, 32)]
        elif kind == 6:
            result[at:at] = rng.randbytes(rng.randrange(1, 32))
        elif others:
            other = rng.choice(others)
            cut = rng.randrange(len(other)) if other else 0
            result[at:] = other[cut:]
    return bytes(result)


def with_png_checksums(data: bytes) -> bytes:
    """Correct the checksums of a PNG's chunks, so that a decoder looks at what is in them."""
    result, at = bytearray(data), 8
    while at + 12 <= len(result):
        length = int.from_bytes(result[at : at + 4])
        end = at + 8 + length
        if end + 4 > len(result):
            break
        result[end : end + 4] = zlib.crc32(result[at + 4 : end]).to_bytes(4)
        at = end + 4
    return bytes(result)


def mutated_json(value: Any, rng: random.Random) -> Any:
    """Replace, remove or repeat one node of nested lists and mappings."""
    paths: list[list[Any]] = []

    def walk(node: Any, path: list[Any]) -> None:
        paths.append(path)
        if isinstance(node, dict):
            for key, item in node.items():
                walk(item, [*path, key])
        elif isinstance(node, list):
            for i, item in enumerate(node[:50]):
                walk(item, [*path, i])

    walk(value, [])
    path = rng.choice(paths)
    hostile = rng.choice(HOSTILE_VALUES)
    if not path:
        return hostile if rng.random() < 0.2 else value
    copy = _copied(value)
    parent = copy
    for key in path[:-1]:
        parent = parent[key]
    kind = rng.randrange(6)
    if kind == 0:
        del parent[path[-1]]
    elif kind == 1 and isinstance(parent, list):
        parent.extend(parent[path[-1] :] * 2)
    elif kind == 2 and isinstance(parent, dict):
        parent[rng.choice(HOSTILE_TEXTS)] = parent.pop(path[-1])
    else:
        parent[path[-1]] = hostile
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
