"""What every stage is given: the configuration, the run, and what follows from the two."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.artifacts.artifact import Typed
from pipeline.config import Config
from pipeline.errors import UserError
from pipeline.openmp import threads_of_environment
from pipeline.rundir import RunDir, expand_home, refuse_misspelt

if TYPE_CHECKING:
    import torch

    from pipeline.data import ImageData
    from pipeline.data.pool import Pool
    from pipeline.space.skeleton import Skeleton, Stem

_A = TypeVar("_A", bound=Typed)
_THREADS_PER_CORE = 8


@dataclass(frozen=True)
class Context:
    """One run of the project under one configuration; `flags` are those of its command line, now and before."""

    config: Config
    run: RunDir
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def read(self, kind: type[_A]) -> _A:
        """An artifact of the run; what is missing or damaged is refused with the command that makes it."""
        path: Path = getattr(self.run, kind.name)
        if not path.exists():
            refuse_misspelt(self.run)
        return kind.read(path, self.run.call(kind.maker))

    def write(self, artifact: Typed) -> None:
        """Put an artifact in its place in the run."""
        artifact.write(getattr(self.run, artifact.name))

    @cached_property
    def data(self) -> "ImageData":
        """The images, split."""
        from pipeline.data import load_data

        return load_data(self.config.data, self.run.project, self.config.compute.seed)

    @cached_property
    def guide(self) -> "Pool | None":
        """The images that [autodo] guide names, where images are learned about."""
        from pipeline.data.guide import load_guide

        autodo = self.config.autodo
        if not autodo.is_on or not autodo.guide:
            return None
        return load_guide(self.config.data, self.run.project / expand_home(autodo.guide, "[autodo] guide"))

    @cached_property
    def target_skeleton(self) -> "Skeleton":
        """The network that is deployed."""
        return self._skeleton(self.config.target.cells, self.config.target.channels)

    @cached_property
    def search_skeleton(self) -> "Skeleton":
        """The network that is searched in: with the stem of the one that is deployed, on images of its own size."""
        search, data = self.config.search, self.config.data
        if search.resolution > data.resolution:
            raise UserError(
                f"[search] resolution = {search.resolution} is above [data] resolution = {data.resolution}; "
                "lower it, or set 0 for that of the data"
            )
        deployed = self._skeleton(search.cells, search.channels)
        stem: Stem = "imagenet" if deployed.imagenet_stem else "cifar"
        return replace(deployed, resolution=search.resolution, stem=stem) if search.resolution else deployed

    def _skeleton(self, cells: int, channels: int) -> "Skeleton":
        from pipeline.space.skeleton import Skeleton

        data, target = self.config.data, self.config.target
        classes = data.classes or self.data.classes
        return Skeleton(target.space, cells, channels, data.resolution, classes, data.in_channels, target.stem)

    @cached_property
    def device(self) -> "torch.device":
        """Where we compute, with the threads that the configuration asks for."""
        import torch

        cores, threads = os.cpu_count() or 1, self.config.compute.threads or threads_of_environment()
        if threads > _THREADS_PER_CORE * cores:
            raise UserError(
                f"[compute] threads (or OMP_NUM_THREADS, where it is 0) is {threads}, but this machine has {cores} "
                "cores, and so many threads only wait for each other; lower it"
            )
        torch.set_num_threads(threads or cores)
        name = self.config.compute.device
        if name == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(name)
        except RuntimeError:
            raise UserError(f"[compute] device = {name!r} is unknown; use auto, cpu, cuda or cuda:N") from None
        if device.type not in ("cpu", "cuda"):
            raise UserError(f"[compute] device = {name!r} is not supported; use auto, cpu, cuda or cuda:N")
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"[compute] device = {name!r}, but torch {torch.__version__} sees "
                f"{torch.cuda.device_count()} CUDA devices; "
                "install a driver and a CUDA build of torch, or set device = 'cpu'"
            )
        return device
