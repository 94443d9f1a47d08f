"""A GPU made of CPU memory, to run what a real one would run on a machine without one.

In ``with PretendedGpu() as gpu:`` tensors are on ``cuda:0`` for Python, autograd and autocast, and
their numbers are computed on the CPU. They are real numbers, so what depends on them (`nonzero`,
`item`) runs as well, and so does the backward pass. (Under torch's FakeTensorMode a leaf that
requires a gradient ends the process of a build for CPUs.)

Refused as by a GPU: operands on two devices, a generator of another device, ``.numpy()``, and types
without a kernel. Counted: where the host waits for the device. Not there: torch.compile, the LSTM
cell, several processes. ``PretendedGpu("mps")`` is that of a Mac, which has no float64.
torch knows the device for the rest of the process, so give it its own:

    python -m tests.pretended_gpu [cuda|mps] [NAME ...]

The name encoders stands for the comparison of every encoder with the CPU.
"""

# What is private to torch has no types.
# mypy: ignore-errors

import collections
import contextlib
import copy
import ctypes
import itertools
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import train_fit
from nerf_posenc.training import loop
from nerf_posenc_app.runs.stop import Stop
from tests import small
from tests.corpora import image_corpus, scene_corpus
from tests.encoders.test_family import TestEncoders
from tests.texts import made_text

aten = torch.ops.aten
_ROOT = str(Path(__file__).parents[1])
_DEVICES = {"cuda": torch.device("cuda:0"), "mps": torch.device("mps:0")}
# The backend that torch leaves for others, under the name that it gets here.
_NAME = "pretended"

# What autocast computes in bfloat16, in float32, and in the widest type of the operands
# (torch's documentation, "CUDA Ops that can autocast ...").
_LOWER = (
    "_convolution addmm addmv addr matmul einsum mm mv linear addbmm baddbmm bmm "
    "scaled_dot_product_attention"
)
_FLOAT = (
    "acos asin cosh exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm cosine_similarity mse_loss "
    "l1_loss cdist nll_loss norm.Scalar prod softmax.int log_softmax.int cumprod cumsum "
    "linalg_vector_norm sum sum.dim_IntList"
)
_WIDEST = "addcdiv addcmul atan2 linalg_cross dot index_put tensordot scatter_add cat stack"

# Indices on the CPU are copied by these.
_INDEXING = {
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten._unsafe_index.Tensor,
}
_COPIES = {aten.copy_.default, aten._to_copy.default}
# Their results have a length that the host must know.
_WAITS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.unique_consecutive.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.bincount.default,
    aten.equal.default,
    aten.repeat_interleave.Tensor,
    aten._linalg_eigh.default,
}
# Lengths of sequences stay on the CPU.
_LENGTHS = {aten._pack_padded_sequence.default, aten._pad_packed_sequence.default}
# These take a number in a tensor of the CPU, as all pointwise operations do.
_SCALARS_PASS = {
    aten.masked_fill.Tensor,
    aten.masked_fill_.Tensor,
    aten.where.self,
    aten._foreach_mul.Tensor,
    aten._foreach_mul_.Tensor,
}
# "index_cuda" has no kernel for them; the CPU has.
_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}


class _Guard(torch._C._acc.DeviceGuard):
    """What the engine of autograd asks of a device."""

    def type_(self) -> Any:
        """Its type."""
        return torch._C._autograd.DeviceType.PrivateUse1


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return True

    def is_built(self) -> bool:
        return True

    def has_primary_context(self, index: int) -> bool:
        return True


class _Module:
    """What stands for `torch.cuda`."""

    is_initialized = is_available = staticmethod(lambda: True)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)
    get_amp_supported_dtype = staticmethod(lambda: [torch.bfloat16, torch.float16])


def _is_eligible(value: object) -> bool:
    is_float = isinstance(value, _GpuTensor) and value.is_floating_point()
    return is_float and value.dtype != torch.float64


def _lower(args: Any) -> Any:
    dtype = torch.get_autocast_dtype(_shown().type)
    return pytree.tree_map(lambda t: t.to(dtype) if _is_eligible(t) else t, args)


def _float(args: Any) -> Any:
    return pytree.tree_map(lambda t: t.float() if _is_eligible(t) else t, args)


def _widest(args: Any) -> Any:
    found = {t.dtype for t in pytree.tree_leaves(args) if _is_eligible(t)}
    return _float(args) if len(found) > 1 and torch.float32 in found else args


def _autocast_kernels() -> list[torch.library.Library]:
    rest, ours = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(op: Any, change: Callable[[Any], Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(key):
                return op(*change(args), **kwargs)

        return run

    for names, change in ((_LOWER, _lower), (_FLOAT, _float), (_WIDEST, _widest)):
        for name in names.split():
            packet, _, overload = name.partition(".")
            op = getattr(getattr(aten, packet), overload or "default")
            ours.impl(name, kernel(op, change), "AutocastPrivateUse1")
    return [rest, ours]


_kept: list[Any] = []


def _register() -> None:
    """Make the device known to torch, once and for all."""
    if _kept:
        return
    torch._C._rename_privateuse1_backend(_NAME)
    torch._register_device_module(_NAME, _Module)
    guard, hooks = _Guard(), _Hooks()
    torch._C._acc.register_python_privateuseone_hook(hooks)
    torch._C._acc.register_python_privateuseone_device_guard(guard)
    # To move to "cuda" or "mps" asks for its guard, which a build for CPUs lacks.
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    name = "_ZN3c104impl26device_guard_impl_registryE"
    guards = (ctypes.c_void_p * 21).in_dll(library, name)
    # CUDA, MPS and PrivateUse1 in c10::DeviceType.
    guards[1], guards[13] = guards[1] or guards[20], guards[13] or guards[20]
    _kept.extend([guard, hooks, *_autocast_kernels()])


class _GpuTensor(Tensor):
    """A tensor on the device, around one of the CPU."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "_GpuTensor":
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{_NAME}:0",
            requires_grad=False,
        )
        made.inner = inner
        return made

    def __init__(self, inner: Tensor) -> None:
        pass

    def __repr__(self, **_: Any) -> str:
        return f"{self.inner!r:.200} on {_shown()}"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_GpuTensor":
        if id(self) not in memo:
            copied = _GpuTensor(self.inner.detach().clone()).requires_grad_(self.requires_grad)
            if isinstance(self, nn.Parameter):
                copied._is_param = True
            memo[id(self)] = copied
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("tensors of the pretended GPU are not pickled; save tensors of the CPU")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == Tensor.device.__get__:
            return _shown()
        if func == Tensor.is_cuda.__get__:
            return _shown().type == "cuda"
        if func == Tensor.is_mps.__get__:
            return _shown().type == "mps"
        if func == Tensor.data.__set__:
            target, value = args
            with torch._C.DisableTorchFunctionSubclass():
                Tensor.data.__set__(target, value)
            target.inner = value.inner
            return None
        if func in (Tensor.numpy, Tensor.__array__):
            raise TypeError(f"can't convert a {_shown()} tensor to numpy, at {_place()}")
        if func is Tensor.__setitem__ and not isinstance(args[2], Tensor):
            _note("copy")
        if func is Tensor.tolist:
            _note("wait")
            return args[0].inner.tolist()
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


_Generator = torch.Generator


class _GpuGenerator(_Generator):
    on_gpu: ClassVar[set[int]] = set()

    def __new__(cls, device: Any = "cpu") -> "_GpuGenerator":
        made = super().__new__(cls, device="cpu")
        change = (
            cls.on_gpu.add if torch.device(device).type == _shown().type else cls.on_gpu.discard
        )
        change(made._cdata)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return _shown() if self._cdata in self.on_gpu else torch.device("cpu")


_gpu: "PretendedGpu | None" = None


def _shown() -> torch.device:
    """The device that tensors say they are on."""
    return _DEVICES["cuda" if _gpu is None else _gpu.type]


def _place() -> str:
    """File and line of our own code that is running."""
    for frame in reversed(traceback.extract_stack()):
        if (
            frame.filename.startswith(_ROOT)
            and frame.filename != __file__
            and ".venv" not in frame.filename
        ):
            return f"{frame.filename.removeprefix(_ROOT)[1:]}:{frame.lineno}"
    return "?"


def _note(kind: str) -> None:
    """Count a wait or a copy in a training step, which is what `fit` does but for its records."""
    if _gpu is None:
        return
    names = [
        frame.name for frame in traceback.extract_stack() if "/training/loop.py" in frame.filename
    ]
    in_step = "fit" in names and not {"record", "_record"} & set(names)
    if in_step or _gpu.counts_all:
        _gpu.in_steps[kind, _place()] += 1


def _require_one_device(func: Any, tensors: list[Tensor]) -> None:
    on_cpu = [t for t in tensors if not isinstance(t, _GpuTensor)]
    if not on_cpu or len(on_cpu) == len(tensors) or func in _COPIES | _LENGTHS:
        return
    if func in _INDEXING and isinstance(tensors[0], _GpuTensor):
        _note("copy")
        return
    passes = torch.Tag.pointwise in func.tags or func in _SCALARS_PASS
    if any(t.ndim or not passes for t in on_cpu):
        raise RuntimeError(f"{func} has operands on the GPU and on the CPU, at {_place()}")


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU what is asked of either device."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    tensors = [a for a in flat if isinstance(a, Tensor)]
    is_gpu = any(isinstance(t, _GpuTensor) for t in tensors)
    device = kwargs.get("device")
    is_named = device is not None and torch.device(device).type in (_shown().type, _NAME)
    to_gpu = is_gpu if device is None else is_named
    _require_one_device(func, tensors)
    for each in flat:
        if isinstance(each, _Generator) and (each._cdata in _GpuGenerator.on_gpu) != to_gpu:
            raise RuntimeError(f"{func} has a generator of another device, at {_place()}")
    if is_gpu and func in _INDEXING and tensors[0].dtype in _UNSIGNED:
        raise NotImplementedError(f'"index_cuda" for {tensors[0].dtype}, at {_place()}')
    is_masked = func is aten.index.Tensor and any(
        i is not None and i.dtype == torch.bool for i in args[1]
    )
    if is_gpu and (func in _WAITS or is_masked):
        _note("wait")
    if func in _COPIES:
        source = args[0 if func is aten._to_copy.default else 1]
        from_gpu = isinstance(source, _GpuTensor)
        into_gpu = to_gpu if func is aten._to_copy.default else isinstance(args[0], _GpuTensor)
        if from_gpu != into_gpu:
            _note("wait" if from_gpu else "copy")
    inner = [a.inner if isinstance(a, _GpuTensor) else a for a in flat]
    inner_args, inner_kwargs = pytree.tree_unflatten(inner, spec)
    if is_named:
        inner_kwargs["device"] = torch.device("cpu")
    out = func(*inner_args, **inner_kwargs)
    if to_gpu and _shown().type == "mps":
        for each in pytree.tree_leaves(out):
            if isinstance(each, Tensor) and each.dtype == torch.float64:
                raise TypeError(f"MPS has no float64: {func}, at {_place()}")
    if func is aten._to_copy.default:
        out = out.clone() if out is inner_args[0] else out
        return _GpuTensor(out) if to_gpu else out
    if func in _LENGTHS and is_gpu:
        return _GpuTensor(out[0]), out[1]
    if not to_gpu:
        return out
    wrapped = pytree.tree_map(lambda t: _GpuTensor(t) if isinstance(t, Tensor) else t, out)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if is_gpu else wrapped


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _GpuTensor in types or not {"device", "generator"}.isdisjoint(kwargs):
            return _run(func, args, kwargs)
        return func(*args, **kwargs)


def _swapping(move: Callable[..., Any]) -> Callable[..., Any]:
    """Move a module as real devices do: its parameters stay the same objects."""

    def moved(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return move(module, *args, **kwargs)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    return moved


class PretendedGpu:
    """Everything on ``cuda``, or on ``mps``, is on the pretended device while this is entered.

    Attributes:
        type: ``"cuda"`` or ``"mps"``.
        in_steps: waits of the host for the device, and copies to it, within training steps, by kind
            (``"wait"`` or ``"copy"``) and place.
        counts_all: count all of them there, whether in a training step or not.
    """

    def __init__(self, type: str = "cuda") -> None:  # noqa: A002
        self.type = type
        self.in_steps: collections.Counter[tuple[str, str]] = collections.Counter()
        self.counts_all = False

    def __enter__(self) -> "PretendedGpu":
        global _gpu
        _register()
        self._stack = contextlib.ExitStack()
        _gpu = self
        if self.type == "mps":
            self._replace(torch.backends.mps, "is_available", lambda: True)
        else:
            self._pretend_cuda()
        self._replace(torch, "Generator", _GpuGenerator)
        for verb in ("set", "is", "get"):
            for name in (f"{verb}_autocast_enabled", f"{verb}_autocast_dtype"):
                if hasattr(torch, name):
                    self._replace(torch, name, self._of_device(getattr(torch, name)))
        self._replace(loop, "CapturedStep", lambda step, device: step)
        for name in ("to", "cuda", "cpu"):
            self._replace(nn.Module, name, _swapping(getattr(nn.Module, name)))
        # torch.tensor(..., device="cuda") is then a copy that the mode sees.
        self._stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)
        self._stack.enter_context(_Mode())
        return self

    def __exit__(self, *error: object) -> None:
        global _gpu
        _gpu = None
        self._stack.close()

    def _pretend_cuda(self) -> None:
        self._replace(torch.cuda, "is_available", lambda: True)
        self._replace(torch.cuda, "device_count", lambda: 1)
        self._replace(torch.cuda, "_lazy_init", lambda: None)
        self._replace(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
        self._replace(torch.cuda, "get_device_name", lambda device=None: "pretended GPU")
        self._replace(torch.cuda, "get_device_capability", lambda device=None: (8, 0))
        self._replace(torch.cuda, "current_device", lambda: 0)
        self._replace(torch.cuda, "synchronize", lambda device=None: None)
        self._replace(torch.cuda, "is_current_stream_capturing", lambda: False)

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        self._stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def _of_device(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # torch calls some of them for the GPU without a name.
        def named(device: str | None = None, *rest: Any) -> Any:
            return function(_NAME if device in (None, self.type) else device, *rest)

        return named


QUICK = "--video 0 --quiet --device cuda"
PLAIN = f"--steps 10 --batch-size 200 --width 16 --depth 1 {QUICK}"
_IMAGE = f"--size 24 {PLAIN}"
_VIEWS = f"--turntable 0 --test-views 1 {_IMAGE}"
_SCENE = f"--scene synthetic {_VIEWS}"
SEQUENCE = f"--steps 10 --batch-size 8 --width 16 {QUICK}"
RUNS = {
    "image": f"--image cat --encodings none fourier gaussian hash {_IMAGE}",
    "16 bits": f"--image deep.npy --encodings fourier {_IMAGE}",
    "siren": f"--image cat --encodings siren {_IMAGE}",
    "held out": f"--image cat --held-out --optimizer adam --encodings gaussian {_IMAGE}",
    "auto": f"--image cat --encodings auto --optimizer adam --size 24 --steps 10 {QUICK}",
    "mlp": f"--encodings fourier {_SCENE} --turntable 1",
    "lens": f"--scene transforms --encodings fourier {_VIEWS}",
    "nerf": f"--field nerf --encodings fourier {_SCENE}",
    "mip": f"--field mip --encodings fourier {_SCENE}",
    "proposal": f"--field proposal --encodings hash {_SCENE}",
    "points": f"--scene colmap --field proposal --encodings hash {_VIEWS}",
    "poses": f"--field proposal --encodings hash --refine-poses {_SCENE}",
    "text": f"--sequence text.txt --depth 1 {SEQUENCE}",
}
"""Command lines of every kind and field."""
NEEDS = {"points": ("pycolmap",)}
"""Packages of the optional ones of them."""


MOST_WAITS = {"mlp": 4, "lens": 4}
"""Waits for the device that a training step takes: whatever is not named here takes none."""


def write_data() -> None:
    """Write what `RUNS` read to the current folder."""
    Path("deep.npy").write_bytes(image_corpus()["deep.npy"])
    for scene in ("synthetic", "transforms", "colmap"):
        shutil.copytree(scene_corpus()[scene], scene)
    Path("text.txt").write_text(made_text(6000))
    small.write_noise()


def interrupted_and_resumed(arguments: list[str]) -> None:
    """Stop a run in the current folder in its first fit, and resume it."""
    asked, is_requested = itertools.count(1), vars(Stop)["is_requested"].fget

    def stop_soon(stop: Stop) -> bool:
        if next(asked) == 5:
            stop.request(run=True)
        return bool(is_requested(stop))

    with small.without_hull(), small.without_figures():
        with mock.patch.object(Stop, "is_requested", property(stop_soon)):
            assert train_fit.main([*arguments, "--out", "run"]) == 130
        assert train_fit.main(["--resume", "run", "--quiet"]) == 0


def encoders_agree(gpu: PretendedGpu) -> None:
    """Compare every encoder's features and gradients with the CPU's; on CUDA none waits."""
    for name, case in TestEncoders.CASES.items():
        encoder, x = case.make(), case.draw(7)
        there = copy.deepcopy(encoder).to(gpu.type)
        results = []
        for made, point in ((encoder, x.clone()), (there, x.to(gpu.type))):
            point.requires_grad_()
            features = made(point)
            features = features if isinstance(features, Tensor) else features[0]
            # Not the same of every column: squares of sines and cosines have no gradient.
            shares = torch.linspace(0, 1, features.numel()).reshape(features.shape)
            (features * shares.to(features.device)).sum().backward()
            results.append((features.detach().cpu(), point.grad.cpu()))
        # Once more, with what the first call has made. (MPS waits for what takes float64.)
        point = x.to(gpu.type)
        gpu.counts_all = True
        there(point)
        gpu.counts_all = False
        assert gpu.type == "mps" or not gpu.in_steps, f"{name}: {dict(gpu.in_steps)}"
        for here, other in zip(*results, strict=True):
            scale = max(1.0, float(here.abs().max()))
            torch.testing.assert_close(
                other / scale,
                here / scale,
                atol=2e-6,
                rtol=0,
                msg=lambda text, n=name: f"{n}: {text}",
            )


def main(
    runs: Mapping[str, str] = RUNS,
    write: Callable[[], None] = write_data,
    most_waits: Mapping[str, int] = MOST_WAITS,
    on_host: Collection[str] = (),
) -> None:
    """Run some of the command lines, and print what waited or was copied in their training steps.

    Args:
        runs: command lines by name.
        write: writes what they read to the current folder.
        most_waits: waits that a step may take, by name; none by default.
        on_host: names of those whose data lie on the host, and are copied in each step.
    """
    asked = sys.argv[1:]
    device = asked.pop(0) if asked[:1] in (["cuda"], ["mps"]) else "cuda"
    if "encoders" in asked:
        with PretendedGpu(device) as gpu:
            encoders_agree(gpu)
    for name in (name for name in asked or runs if name != "encoders"):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            write()
            with PretendedGpu(device) as gpu:
                words = runs[name].replace("--device cuda", f"--device {device}").split()
                interrupted_and_resumed(words)
            steps = 10 * len(list(Path("run").rglob("*.safetensors")))
        counts = collections.Counter[str]()
        for (kind, _), count in gpu.in_steps.items():
            counts[kind] += count
        waits, copies = counts["wait"] / steps, counts["copy"] / steps
        print(f"{name}: {waits:.1f} waits and {copies:.1f} copies in a step", flush=True)
        for (kind, place), count in gpu.in_steps.most_common(12):
            print(f"    {kind} {count / steps:.1f} {place}")
        if device == "cuda":
            assert waits < most_waits.get(name, 0) + 0.5
            assert copies < 1 or name in on_host


if __name__ == "__main__":
    main(on_host=["text"])
