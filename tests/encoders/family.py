"""What every encoder of a family does alike, whichever package it is of."""

import copy
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.optional import needs


def coordinates(in_dim: int) -> Callable[..., Tensor]:
    """Points in [-1, 1] away from the nodes of the grids, where they have kinks."""

    def draw(*batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(11)
        return torch.rand(*batch, in_dim, generator=generator) * 1.9 - 0.95

    return draw


def directions(*batch: int) -> Tensor:
    return nn.functional.normalize(coordinates(3)(*batch), dim=-1)


def positions(*batch: int) -> Tensor:
    return coordinates(1)(*batch)[..., 0] * 100


@dataclass(frozen=True)
class Case:
    """An encoder, what it encodes, and what it promises.

    Attributes:
        make: makes the encoder.
        draw: draws inputs of a batch shape.
        has_axes: whether the last dimension of its input is that of the coordinates.
        takes_integers: whether it encodes integers, such as positions.
        keeps_half: whether features of half-precision input have that type.
        keeps_parameters: whether trained numbers keep their bits through half precision.
        num_features: number of columns of an encoder's features.
        is_exported: whether its exported graph has operations that no other case has.
    """

    make: Callable[[], nn.Module]
    draw: Callable[..., Tensor]
    has_axes: bool = True
    takes_integers: bool = False
    keeps_half: bool = True
    keeps_parameters: bool = False
    num_features: Callable[[Any], int] = lambda encoder: encoder.out_dim
    is_exported: bool = True


def encoded(encoder: nn.Module, x: Tensor) -> Tensor:
    """Features as one tensor, a rotary encoder's cosines and sines side by side."""
    features = encoder(x)
    return torch.cat(features, -1) if isinstance(features, tuple) else features


def with_state(case: Case, encoder: nn.Module) -> nn.Module:
    """A fresh float32 encoder with the numbers of another."""
    fresh = case.make()
    fresh.load_state_dict(encoder.state_dict())
    return fresh


def of_numpy(value: Any) -> Any:
    """An argument with NumPy's integers for all of Python's."""
    if isinstance(value, tuple | list):
        return type(value)(map(of_numpy, value))
    return np.int64(value) if type(value) is int else value


# Compiling and exporting takes seconds an encoder: one is in the default run.
_QUICK = "fourier-raw"


class EncoderFamily:
    """Tests of each of the cases of a subclass."""

    CASES: ClassVar[dict[str, Case]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Parametrize every test; those that compile are slow for all cases but one."""
        is_slow = metafunc.function.__name__ in ("test_it_compiles_as_one_graph", "test_it_exports")
        cases = [
            pytest.param(
                case, id=name, marks=[pytest.mark.slow] if is_slow and name != _QUICK else []
            )
            for name, case in self.CASES.items()
            if case.is_exported or metafunc.function.__name__ != "test_it_exports"
        ]
        metafunc.parametrize("case", cases)

    @pytest.mark.parametrize("batch", [(), (0,), (5,), (2, 0, 3), (2, 3)])
    def test_any_batch_shape(self, case: Case, batch: tuple[int, ...]) -> None:
        encoder = case.make()
        features = encoded(encoder, case.draw(*batch))
        assert features.shape == (*batch, case.num_features(encoder))

    def test_strided_input_gives_what_contiguous_input_gives(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(3, 4).transpose(0, 1)
        assert not x.is_contiguous()
        assert torch.equal(encoded(encoder, x), encoded(encoder, x.contiguous()))

    def test_rows_do_not_depend_on_their_neighbors(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(6)
        rows = torch.stack([encoded(encoder, row) for row in x])
        torch.testing.assert_close(rows, encoded(encoder, x), atol=1e-6, rtol=0)

    def test_float64_is_kept_and_float32_is_near_it(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(20)
        single, double = encoded(encoder, x), encoded(encoder, x.double())
        assert single.dtype == torch.float32
        assert double.dtype == torch.float64
        torch.testing.assert_close(single.double(), double, atol=2e-6, rtol=0)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast_changes_no_bit(self, case: Case, dtype: torch.dtype) -> None:
        encoder, x = case.make(), case.draw(40)
        exact = encoded(encoder, x)
        with torch.autocast("cpu", dtype):
            found = encoded(encoder, x)
        assert found.dtype == torch.float32
        assert torch.equal(found, exact)

    def test_the_default_dtype_of_the_process_decides_no_digit(self, case: Case) -> None:
        x = case.draw(20)
        torch.set_default_dtype(torch.bfloat16)
        try:
            torch.manual_seed(0)
            encoder = case.make()
            features = encoded(encoder, x)
            counted = encoded(encoder, x.long()) if case.takes_integers else None
        finally:
            torch.set_default_dtype(torch.float32)
        # What is trained may have the default type, and with it the features of tables.
        torch.manual_seed(0)
        exact = with_state(case, encoder)
        bound = 1e-6 if features.dtype == torch.float32 else 0.02
        torch.testing.assert_close(features.float(), encoded(exact, x), atol=bound, rtol=bound)
        if counted is not None:
            assert counted.dtype == torch.float32
            torch.testing.assert_close(counted, encoded(exact, x.long()), atol=1e-6, rtol=0)
        for name in getattr(encoder, "uncast", ()):
            if (value := getattr(encoder, name)) is not None:
                assert value.dtype == torch.float32

    def test_casts_of_the_module_keep_its_constants(self, case: Case) -> None:
        encoder = case.make()
        if any(True for _ in encoder.parameters()) and not case.keeps_parameters:
            pytest.skip("its numbers are trained, and a cast is meant to reach them")
        x = case.draw(20)
        expected = encoded(encoder, x)
        assert torch.equal(encoded(encoder.half().float(), x), expected)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_goes_in_and_comes_out(self, case: Case, dtype: torch.dtype) -> None:
        encoder = case.make()
        x = case.draw(20).to(dtype)
        features = encoded(encoder.to(dtype), x)
        if case.keeps_half:
            assert features.dtype == dtype
        expected = encoded(with_state(case, encoder), x.float())
        torch.testing.assert_close(features.float(), expected, atol=0.02, rtol=0.01)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
    def test_features_have_the_type_that_the_module_was_cast_to(
        self, case: Case, dtype: torch.dtype
    ) -> None:
        if not case.keeps_half:
            pytest.skip("angles are float32 in any model")
        encoder = case.make()
        x = case.draw(20)
        model = nn.Sequential(encoder, nn.Linear(case.num_features(encoder), 3)).to(dtype)
        assert model(x).dtype == dtype
        features = encoder(x)
        exact = with_state(case, encoder)(x)
        is_rounded = any(parameter.dtype == dtype for parameter in encoder.parameters())
        if dtype == torch.bfloat16 and not is_rounded:
            assert torch.equal(features, exact.to(dtype))
        torch.testing.assert_close(features.float(), exact, atol=0.02, rtol=0.01)
        assert model.float()(x).dtype == torch.float32

    def test_copies_and_state_dicts_encode_alike(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(5)
        assert torch.equal(encoded(copy.deepcopy(encoder), x), encoded(encoder, x))
        assert torch.equal(encoded(with_state(case, encoder), x), encoded(encoder, x))

    def test_derivatives(self, case: Case) -> None:
        encoder = case.make().double()
        x = case.draw(2).double().requires_grad_()

        def encode(x: Tensor) -> Tensor:
            return encoded(encoder, x)

        assert torch.autograd.gradcheck(encode, x, fast_mode=True)
        assert torch.autograd.gradgradcheck(encode, x, fast_mode=True)

    def test_derivatives_by_forward_mode_are_those_of_reverse_mode(self, case: Case) -> None:
        encoder = case.make().double()
        x = case.draw(1).double()[0]

        def encode(x: Tensor) -> Tensor:
            return encoded(encoder, x[None])[0]

        forward, reverse = torch.func.jacfwd, torch.func.jacrev
        expected = reverse(encode)(x)
        torch.testing.assert_close(forward(encode)(x), expected)
        expected = reverse(reverse(encode))(x)
        for one, other in ((forward, forward), (forward, reverse), (reverse, forward)):
            torch.testing.assert_close(one(other(encode))(x), expected)

    def test_shared_memory_stays_shared(self, case: Case) -> None:
        encoder = case.make().share_memory()
        assert all(parameter.is_shared() for parameter in encoder.parameters())
        assert all(value.is_shared() for value in encoder.state_dict().values())

    def test_vmap_gives_what_a_batch_gives(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(6)
        mapped = torch.func.vmap(lambda row: encoded(encoder, row))(x)
        torch.testing.assert_close(mapped, encoded(encoder, x), atol=1e-6, rtol=0)

    @pytest.mark.usefixtures("unchecked")
    def test_it_compiles_as_one_graph(self, case: Case) -> None:
        torch.compiler.reset()
        encoder = case.make()
        compiled = torch.compile(lambda x: encoded(encoder, x), fullgraph=True, backend="aot_eager")
        x = case.draw(7)
        torch.testing.assert_close(compiled(x), encoded(encoder, x), atol=1e-6, rtol=0)

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.filterwarnings("ignore")
    def test_it_exports(self, case: Case, tmp_path: Path) -> None:
        needs("onnx", "onnxscript", "onnxruntime")
        import onnxruntime

        encoder = case.make().eval()
        rows = torch.export.Dim("rows")
        program = torch.export.export(encoder, (case.draw(4),), dynamic_shapes=({0: rows},))
        x = case.draw(9) * 0.5
        expected = encoder(x)
        torch.testing.assert_close(program.module()(x), expected, atol=1e-6, rtol=0)
        path = tmp_path / "encoder.onnx"
        # The optimizer of the graph takes a third of the time and changes no value.
        torch.onnx.export(program, f=path, optimize=False, verbose=False)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        for ours, theirs in zip(
            expected if isinstance(expected, tuple) else (expected,), outputs, strict=True
        ):
            torch.testing.assert_close(torch.from_numpy(theirs), ours, atol=2e-6, rtol=0)

    @pytest.mark.usefixtures("unchecked")
    def test_a_wrong_number_of_coordinates_is_named(self, case: Case) -> None:
        if not case.has_axes:
            pytest.skip("it takes positions of any shape")
        encoder = case.make()
        with pytest.raises(ValueError, match=r"must have shape \(\*batch, \d\).*got \(5, 7\)"):
            encoder(torch.zeros(5, 7))

    @pytest.mark.usefixtures("unchecked")
    def test_integers_are_refused_where_coordinates_are_meant(self, case: Case) -> None:
        encoder = case.make()
        whole = torch.zeros(case.draw(3).shape, dtype=torch.long)
        if case.takes_integers:
            torch.testing.assert_close(encoded(encoder, whole), encoded(encoder, whole.float()))
            return
        with pytest.raises(TypeError, match=r"floating-point.*got torch\.int64"):
            encoder(whole)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_coordinates_that_are_not_finite_spoil_their_own_row_alone(
        self, case: Case, value: float
    ) -> None:
        encoder = case.make()
        x = case.draw(3)
        clean = encoded(encoder, x)
        x[1] = value
        features = encoded(encoder, x)
        assert features[1].isnan().any()
        assert torch.equal(features[[0, 2]], clean[[0, 2]])

    def test_it_prints_its_width(self, case: Case) -> None:
        encoder = case.make()
        assert re.search(rf"\b(out_)?dim={encoder.out_dim}\b", repr(encoder))

    def test_its_number_of_coordinates_is_that_of_its_input(self, case: Case) -> None:
        encoder = case.make()
        assert encoder.in_dim == (case.draw(1).shape[-1] if case.has_axes else 1)

    def test_its_widths_are_set_once(self, case: Case) -> None:
        encoder = case.make()
        for name in ("in_dim", "out_dim"):
            if hasattr(encoder, name):
                with pytest.raises(AttributeError):
                    setattr(encoder, name, 1)

    def test_built_on_the_meta_device_it_has_its_constants_again_after_to_empty(
        self, case: Case
    ) -> None:
        torch.manual_seed(0)
        with torch.device("meta"):
            encoder = case.make()
        assert all(tensor.is_meta for tensor in encoder.parameters())
        torch.manual_seed(0)
        expected = case.make()
        encoder.to_empty(device="cpu")
        encoder.load_state_dict(expected.state_dict())
        x = case.draw(5)
        assert torch.equal(encoded(encoder, x), encoded(expected, x))

    def test_parameters_are_reset_to_what_the_constructor_draws(self, case: Case) -> None:
        torch.manual_seed(0)
        expected = case.make()
        with torch.device("meta"):
            encoder = case.make()
        encoder.to_empty(device="cpu")
        torch.manual_seed(0)
        encoder.reset_parameters()  # type: ignore[operator]
        x = case.draw(5)
        assert torch.equal(encoded(encoder, x), encoded(expected, x))
        for each in (encoder, expected):
            each.reset_parameters(torch.Generator().manual_seed(5))  # type: ignore[operator]
        state = expected.state_dict()
        assert encoder.state_dict().keys() == state.keys()
        for name, value in encoder.state_dict().items():
            assert torch.equal(value, state[name])

    def test_sampled_numbers_that_were_never_set_are_refused_once(self, case: Case) -> None:
        with torch.device("meta"):
            encoder = case.make()
        encoder.to_empty(device="cpu")
        sampled = [m for m in encoder.modules() if getattr(m, "uncast", ())]
        if not any(getattr(m, name) is not None for m in sampled for name in m.uncast):  # type: ignore[union-attr]
            pytest.skip("it samples nothing")
        with pytest.raises(ValueError, match=r"holds NaN; after to_empty, call reset_parameters"):
            encoded(encoder, case.draw(5))
        encoder.reset_parameters()  # type: ignore[operator]
        assert encoded(encoder, case.draw(5)).isfinite().all()

    def test_constants_survive_loaders_that_fill_buffers_with_anything(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(5)
        expected = encoded(encoder, x)
        for module in encoder.modules():
            for key, buffer in list(module.named_buffers(recurse=False)):
                if key in module._non_persistent_buffers_set:
                    setattr(module, key, torch.full_like(buffer, 1e30))
        assert torch.equal(encoded(encoder, x), expected)

    def test_shapes_can_be_found_on_the_meta_device(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(5)
        expected = encoded(encoder, x)
        on_meta = encoded(copy.deepcopy(encoder).to("meta"), x.to("meta"))
        assert on_meta.is_meta
        assert on_meta.shape == expected.shape

    @pytest.mark.slow
    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.filterwarnings("ignore")
    def test_it_can_be_traced(self, case: Case) -> None:
        encoder = case.make()
        traced = torch.jit.trace(encoder, case.draw(4))
        x = case.draw(9)
        ours, theirs = encoder(x), traced(x)
        torch.testing.assert_close(theirs, ours, atol=1e-6, rtol=0)

    @pytest.mark.usefixtures("unchecked")
    def test_integers_of_numpy_are_integers(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        torch.manual_seed(0)
        encoder = case.make()
        kind: Any = type(encoder)
        init = kind.__init__

        def init_by_numpy(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *of_numpy(args), **{name: of_numpy(value) for name, value in kwargs.items()})

        monkeypatch.setattr(kind, "__init__", init_by_numpy)
        torch.manual_seed(0)
        made = case.make()
        assert repr(made) == repr(encoder)
        x = case.draw(5)
        assert torch.equal(encoded(made, x), encoded(encoder, x))

    def test_it_can_be_pickled(self, case: Case) -> None:
        encoder = case.make()
        x = case.draw(5)
        assert torch.equal(encoded(pickle.loads(pickle.dumps(encoder)), x), encoded(encoder, x))

    def test_its_repr_is_that_of_an_equal_encoder_and_of_no_other(self, case: Case) -> None:
        torch.manual_seed(0)
        encoder = case.make()
        torch.manual_seed(0)
        assert repr(case.make()) == repr(encoder)
        others = [repr(other.make()) for other in self.CASES.values() if other is not case]
        assert repr(encoder) not in others
