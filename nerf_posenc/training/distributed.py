"""Data-parallel training: the processes that train one model, and each one's share of a batch.

Every rank draws the same seeded global batch and keeps its own rows. DistributedDataParallel takes
the mean of the gradients, so that the step is that of one process with the global batch.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

_SET_BY_TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# Ranks wait while the first one evaluates and saves; a rank that ends is noticed at once.
_TIMEOUT = timedelta(days=1)


class PeerError(Exception):
    """Another process of the group has ended, so that this one cannot go on."""


@dataclass(frozen=True)
class World:
    """The processes that train together, and which of them this one is.

    All ranks must call the methods that communicate in the same order.

    Args:
        rank: rank of this process, from 0.
        size: number of processes.
        local_rank: rank of this process among those of its machine.
        store: key-value store of the processes; None for one process.

    Examples:
        >>> [World(rank, 3).rows(8) for rank in range(3)]
        [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    store: Any = None

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which alone writes and prints."""
        return self.rank == 0

    def rows(self, num_rows: int) -> slice:
        """Rows of a global batch that this process computes; all ranks have as many, or one more.

        Raises:
            ValueError: If there are fewer rows than processes.
        """
        if num_rows < self.size:
            raise ValueError(
                f"a batch of {num_rows} cannot be shared by {self.size} processes; use a larger "
                "batch or fewer processes"
            )
        return slice(num_rows * self.rank // self.size, num_rows * (self.rank + 1) // self.size)

    def weight(self, num_rows: int) -> float:
        """Factor of a local mean, so that the mean over all ranks is that of the global batch.

        It is 1 if the number of processes divides the number of rows.
        """
        rows = self.rows(num_rows)
        return self.size * len(range(num_rows)[rows]) / num_rows

    def share(self, batch: Any, num_rows: int) -> Any:
        """Keep this process's rows of a global batch.

        Args:
            batch: tensors with one row per example, and generators of further random numbers, in
                tuples; None in the place of a tensor for none.
            num_rows: number of rows of the global batch.

        Raises:
            TypeError: If the batch contains anything else.
            ValueError: If there are fewer rows than processes.
        """
        if self.size == 1 or batch is None:
            return batch
        if isinstance(batch, Tensor):
            return batch[self.rows(num_rows)]
        if isinstance(batch, torch.Generator):
            return BatchGenerator(batch, num_rows, self.rows(num_rows))
        if isinstance(batch, tuple):
            parts = [self.share(part, num_rows) for part in batch]
            return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
        raise TypeError(f"a batch to be shared holds a {type(batch).__name__}, not tensors")

    def data_parallel(
        self, model: nn.Module, forward: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """Wrap a forward pass, so that each backward pass takes the mean gradient of all ranks.

        All ranks start from the parameters of rank 0.

        Args:
            model: its parameters are trained.
            forward: function from the inputs of a batch to the prediction.
        """
        if self.size == 1:
            return forward
        with peer_errors():
            return DistributedDataParallel(_Forward(model, forward))

    def mean(self, value: Tensor) -> Tensor:
        """Mean over all ranks."""
        if self.size == 1:
            return value
        with peer_errors():
            # Not ReduceOp.AVG, which gloo lacks.
            dist.all_reduce(value)
        return value / self.size

    def maximum(self, value: float) -> float:
        """Largest value of all ranks, through the CPU."""
        if self.size == 1:
            return value
        largest = torch.tensor(value, dtype=torch.float64)
        with peer_errors():
            dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        return float(largest)

    def broadcast(self, value: Any = None) -> Any:
        """Value of rank 0, any that can be pickled; those of the others are not used."""
        if self.size == 1:
            return value
        values = [value]
        with peer_errors():
            dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def from_first(self, function: Callable[[], Any]) -> Any:
        """Call a function on rank 0, and return its value or raise its exception on all ranks."""
        if self.size == 1:
            return function()
        value, error = None, None
        if self.is_first:
            try:
                value = function()
            except Exception as raised:
                error = raised
        value, error = self.broadcast((value, error))
        if error is not None:
            raise error
        return value

    def gather(self, value: Any) -> list[Any]:
        """Values of all ranks, any that can be pickled."""
        values = [value] * self.size
        if self.size > 1:
            with peer_errors():
                dist.all_gather_object(values, value)
        return values

    def is_first_to(self, name: str) -> bool:
        """Whether no process has asked this before; it waits for none."""
        if self.store is None:
            return True
        try:
            return int(self.store.add(name, 1)) == 1
        except RuntimeError:
            # The store has ended with the process that held it.
            return True


ALONE = World()
"""One process."""


@dataclass(frozen=True)
class BatchGenerator:
    """Random numbers of the rows of a global batch that one process computes.

    Args:
        generator: random number generator, in the same state on all ranks.
        num_rows: number of rows of the global batch.
        rows: slice of the rows of this process.
    """

    generator: torch.Generator
    num_rows: int
    rows: slice

    def rand(self, shape: torch.Size, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) of a shape whose first dimension are this process's rows."""
        whole = (self.num_rows, *shape[1:])
        numbers = torch.rand(whole, generator=self.generator, device=like.device, dtype=like.dtype)
        return numbers[self.rows]


def join_world() -> World:
    """Join the processes that ``torchrun`` started; alone if it did not start this one.

    They communicate by gloo on CPUs and by NCCL on GPUs. With GPUs this process gets the one of its
    local rank. Call `leave_world` in the end.

    Raises:
        PeerError: If the processes do not find each other.
    """
    world = find_world()
    if world.size == 1:
        return ALONE
    has_nccl = torch.cuda.is_available() and dist.is_nccl_available()
    if has_nccl and world.local_rank < torch.cuda.device_count():
        torch.cuda.set_device(world.local_rank)
    with peer_errors():
        store, rank, size = next(iter(rendezvous("env://")))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if has_nccl else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=_TIMEOUT,
        )
    return World(rank, size, world.local_rank, store)


def leave_world() -> None:
    """Close the connections of `join_world`, if there are any."""
    if dist.is_initialized():
        dist.destroy_process_group()


def find_world() -> World:
    """Rank and number of processes that ``torchrun`` gave this process, without joining them."""
    if any(name not in os.environ for name in _SET_BY_TORCHRUN):
        return ALONE
    rank, local_rank, size = (int(os.environ[name]) for name in _SET_BY_TORCHRUN[:3])
    return World(rank, size, local_rank)


@contextlib.contextmanager
def peer_errors() -> Iterator[None]:
    """Tell the errors of a lost connection from others.

    Raises:
        PeerError: If another process has ended.
    """
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, dist.DistError) or "gloo" in str(error):
            raise PeerError("another process of this run has ended") from error
        raise


class _Forward(nn.Module):
    """A forward pass as a module that has the parameters of a model, and not its buffers.

    DistributedDataParallel would copy buffers, such as an occupancy grid, in every step.
    """

    def __init__(self, model: nn.Module, forward: Callable[[Any], Any]) -> None:
        super().__init__()
        self._parameters_of_model = nn.ParameterList(model.parameters())
        # A module assigned as it is would bring its buffers.
        self._forward = partial(forward)

    def forward(self, inputs: Any) -> Any:
        """Run the forward pass."""
        return self._forward(inputs)
