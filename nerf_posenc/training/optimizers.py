"""Optimizers for coordinate networks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nerf_posenc.training.devices import fastest_dtype

ADAM_LR = 3e-3
MUON_LR = 0.05
MUON_ADAM_LR = 1e-2
# A short average of squared gradients, since they fall fast as an image is fitted.
_MUON_ADAM_BETAS = (0.9, 0.95)
_ADAM_EPS = 1e-15
# Of Muon, as Jordan et al. 2024 have them: coefficients of x, x^3 and x^5, which drive singular
# values of 0 to 1 to about 1 in five steps.
_MUON_MOMENTUM = 0.95
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_NEWTON_SCHULZ_STEPS = 5
_NORM_EPS = 1e-7
_SMALL_MATRIX = 1 << 13


class OptimizerGroup:
    """Several optimizers that step together, with one ``state_dict``.

    Args:
        optimizers: the parts, over disjoint parameters.
        lr_powers: power, for each part, of the schedule's factor that its learning rates
            follow; None for 1.

    Raises:
        ValueError: If the numbers of powers and parts differ.
    """

    def __init__(
        self, optimizers: Iterable[torch.optim.Optimizer], lr_powers: Sequence[float] | None = None
    ) -> None:
        self.optimizers = list(optimizers)
        self._lr_powers = [1.0] * len(self.optimizers) if lr_powers is None else list(lr_powers)
        if len(self._lr_powers) != len(self.optimizers):
            raise ValueError(
                f"lr_powers must be one per part; got {len(self._lr_powers)} for "
                f"{len(self.optimizers)} optimizers"
            )
        self._initial_lrs = [
            [float(group["lr"]) for group in optimizer.param_groups]
            for optimizer in self.optimizers
        ]

    @property
    def peak_lrs(self) -> dict[str, float]:
        """Initial learning rate of each part, by the name of its class: ``muon``, ``adam``."""
        parts = zip(self.optimizers, self._initial_lrs, strict=True)
        return {type(part).__name__.strip("_").lower(): lrs[0] for part, lrs in parts}

    def scale_lrs(self, factor: float) -> None:
        """Multiply every initial learning rate by ``factor``, raised to the power of its part."""
        parts = zip(self.optimizers, self._initial_lrs, self._lr_powers, strict=True)
        for optimizer, initial_lrs, power in parts:
            for group, initial_lr in zip(optimizer.param_groups, initial_lrs, strict=True):
                lr = initial_lr * factor**power
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(lr)
                else:
                    group["lr"] = lr

    def make_capturable(self, device: torch.device) -> None:
        """Keep learning rates and numbers of steps on a CUDA device, where a graph reads them."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=device)
                group["capturable"] = True
            for moments in optimizer.state.values():
                if "step" in moments:
                    moments["step"] = moments["step"].to(device)

    def reset(self) -> None:
        """Forget all moments, as for parameters that have been drawn anew."""
        for optimizer in self.optimizers:
            optimizer.state.clear()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Take one step with every part."""
        for optimizer in self.optimizers:
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all parts."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load the state of an optimizer group over the same parameters.

        The settings, such as the learning rates, stay those of this group; the moments are loaded.

        Raises:
            ValueError: If the number of parts, or the number or shape of their moments differs.
        """
        parts = state["optimizers"]
        if len(parts) != len(self.optimizers):
            raise ValueError(
                f"the state holds {len(parts)} optimizers and this group {len(self.optimizers)}; "
                "build the group with the optimizers that the state was saved from"
            )
        for optimizer, part in zip(self.optimizers, parts, strict=True):
            _require_moments(optimizer, part["state"])
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": part["state"], "param_groups": groups})


def _require_moments(optimizer: torch.optim.Optimizer, state: Mapping[int, Any]) -> None:
    """Refuse a saved state that does not fit an optimizer's parameters."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    is_whole = _moments_of(optimizer)
    for index, moments in state.items():
        if not isinstance(index, int) or not 0 <= index < len(parameters):
            raise ValueError(f"the state has a parameter {index!r} of {len(parameters)}")
        shape = parameters[index].shape
        fits = isinstance(moments, Mapping) and set(moments) == set(is_whole)
        if not fits or any(
            not isinstance(v, Tensor) or v.shape != (shape if is_whole[name] else torch.Size())
            for name, v in moments.items()
        ):
            raise ValueError(
                f"the state of parameter {index} must be {', '.join(sorted(is_whole))} of the "
                f"shape {tuple(shape)}"
            )


def _moments_of(optimizer: torch.optim.Optimizer) -> dict[str, bool]:
    """Names of what an optimizer keeps of a parameter; whether it has the parameter's shape."""
    # Another optimizer of this class and these settings steps a matrix of its own.
    group = optimizer.param_groups[0]
    probe = nn.Parameter(group["params"][0].new_ones(2, 3))
    probe.grad = torch.ones_like(probe)
    other = object.__new__(type(optimizer))
    own = {"state": defaultdict(dict), "param_groups": [{**group, "params": [probe]}]}
    other.__dict__ = vars(optimizer) | own
    other.step()
    return {name: value.shape == probe.shape for name, value in other.state[probe].items()}


def adam(
    module: nn.Module, *, lr: float = ADAM_LR, betas: tuple[float, float] = (0.9, 0.999)
) -> OptimizerGroup:
    """Adam (Kingma and Ba 2015) on all parameters.

    Epsilon is 1e-15, as the small gradients of a hash grid's tables need (Müller et al. 2022,
    section 4).

    Args:
        module: its parameters are optimized.
        lr: learning rate.
        betas: decay of the moments.
    """
    return OptimizerGroup([_adam(module.parameters(), lr, betas)])


def muon(
    module: nn.Module,
    matrices: Iterable[Tensor],
    *,
    lr: float = MUON_LR,
    adam_lr: float = MUON_ADAM_LR,
    lr_power: float = 1.0,
) -> OptimizerGroup:
    r"""Muon on the given matrices, Adam (with betas of 0.9 and 0.95) on all other parameters.

    Muon (Jordan et al. 2024) steps along the orthogonal factor of the momentum, so that all
    singular directions of a weight matrix grow alike. A coordinate network's fine detail lies in
    the small ones, which Adam neglects (McGinnis et al. 2025, arXiv:2512.14366).

    Args:
        module: its parameters are optimized.
        matrices: the two-dimensional weights that Muon steps: all but the output layer's, as
            [hidden_matrices][nerf_posenc.networks.mlp.hidden_matrices] lists them.
        lr: Muon's learning rate. A step moves a matrix by ``lr * sqrt(max(1, rows / columns))``
            in spectral norm.
        adam_lr: Adam's.
        lr_power: power of the schedule's factor that Muon's learning rate follows; Adam's
            follows the factor itself.

    Raises:
        ValueError: If there are no matrices, or one is not two-dimensional.
    """
    matrices = list(matrices)
    if not matrices:
        raise ValueError("muon needs at least one weight matrix; use adam for this module")
    if other := [tuple(matrix.shape) for matrix in matrices if matrix.ndim != 2]:
        raise ValueError(f"muon steps matrices; got a parameter of shape {other[0]}")
    chosen = {id(matrix) for matrix in matrices}
    rest = [p for p in module.parameters() if id(p) not in chosen]
    parts: list[torch.optim.Optimizer] = [_Muon(matrices, lr)]
    if rest:
        parts.append(_adam(rest, adam_lr, _MUON_ADAM_BETAS))
    return OptimizerGroup(parts, [lr_power, 1.0][: len(parts)])


class _Muon(torch.optim.Optimizer):
    """Muon with matrices of equal shape batched in the Newton-Schulz iteration.

    torch's own, which takes them one by one, is of 2.9.
    """

    def __init__(self, matrices: list[Tensor], lr: float) -> None:
        super().__init__(matrices, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                gradients = [p.grad for p in parameters if p.grad is not None]
                momenta = [self._momentum_buffer(p) for p in parameters]
                # Nesterov: the average of the gradients, and from there a step ahead.
                torch._foreach_lerp_(momenta, gradients, 1 - _MUON_MOMENTUM)
                ahead = torch._foreach_lerp(gradients, momenta, _MUON_MOMENTUM)
                # Step all matrices of one shape at once: for small ones the calls dominate.
                updates = _orthogonal_factors(torch.stack(ahead)).to(parameters[0].dtype)
                # Jordan et al. 2024 multiply by the root of outputs over inputs, if that is more.
                lr = group["lr"] * math.sqrt(max(1, shape[0] / shape[1]))
                if isinstance(lr, Tensor):
                    updates, lr = updates * lr, 1.0
                torch._foreach_add_(parameters, list(updates.unbind()), alpha=-lr)

    def _momentum_buffer(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


def _orthogonal_factors(matrices: Tensor) -> Tensor:
    """Approximate orthogonal factors of matrices ``(n, rows, columns)``.

    Newton-Schulz iteration with the quintic polynomial of Jordan et al. 2024, in bfloat16 where
    the device computes in it, except for small matrices on a CPU.
    """
    a, b, c = _NEWTON_SCHULZ
    # On a CPU, setting up a bfloat16 product takes longer than a small one takes in float32.
    is_small = matrices.device.type == "cpu" and matrices[0].numel() <= _SMALL_MATRIX
    x = matrices.to(fastest_dtype(matrices.device, is_small=is_small))
    is_tall = x.shape[1] > x.shape[2]
    if is_tall:
        x = x.mT
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=_NORM_EPS)
    for _ in range(_NEWTON_SCHULZ_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def _adam(parameters: Iterable[Tensor], lr: float, betas: tuple[float, float]) -> torch.optim.Adam:
    parameters = list(parameters)
    # One pass over memory instead of ten; complex parameters have no fused kernel.
    fused = not any(parameter.is_complex() for parameter in parameters)
    return torch.optim.Adam(parameters, lr=lr, betas=betas, eps=_ADAM_EPS, fused=fused)
