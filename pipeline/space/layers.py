"""The rows that operations are written in: each knows how to build itself and what it costs.

A row maps a feature map of `Flow(channels, resolution)` to the next one; an operation is a tuple of rows at a `Site`.
Built with `copies` = n, a row is n independent ones in groups of channels: one call instead of n, and the parameters of
copy i are the i-th part of n along the first dimension.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from torch import nn

from pipeline.space.modules import Concatenate, DepthwiseConv2d, ShiftedHalves, Summed, Zeros
from pipeline.space.sites import Site

SITE_STRIDE = 0  # in a row: "the stride of the site"


class Normalization(NamedTuple):
    """BatchNorm options: learnable scale and shift, and whether pooling is followed by one (DARTS supernets do)."""

    affine: bool = True
    pool_bn: bool = False


class Flow(NamedTuple):
    """What runs between two rows."""

    channels: int
    resolution: int


class Row(Protocol):
    """One layer of an operation."""

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module: ...

    def after(self, flow: Flow, site: Site) -> Flow: ...

    def macs(self, flow: Flow, site: Site) -> int: ...

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int: ...


class Free:
    """A row without parameters or multiply-adds that keeps the shape."""

    def after(self, flow: Flow, site: Site) -> Flow:
        return flow

    def macs(self, flow: Flow, site: Site) -> int:
        return 0

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return 0


@dataclass(frozen=True)
class Relu(Free):
    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return nn.ReLU()


@dataclass(frozen=True)
class Identity(Free):
    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return nn.Identity()


@dataclass(frozen=True)
class Norm(Free):
    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return nn.BatchNorm2d(copies * flow.channels, affine=norm.affine)

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return 2 * flow.channels if norm.affine else 0


@dataclass(frozen=True)
class Conv(Free):
    """A convolution without bias, padded so that only the stride changes the resolution.

    It keeps the width, times `expansion`, or brings it to that of the site or half of it.
    """

    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    depthwise: bool = False
    width: Literal["keep", "half", "out"] = "keep"
    expansion: int = 1

    def _stride(self, site: Site) -> int:
        return self.stride or site.stride

    def after(self, flow: Flow, site: Site) -> Flow:
        widths = {"keep": self.expansion * flow.channels, "half": site.channels_out // 2, "out": site.channels_out}
        return Flow(widths[self.width], flow.resolution // self._stride(site))

    def _weights(self, flow: Flow, site: Site) -> int:
        groups = flow.channels if self.depthwise else 1
        return self.kernel**2 * (flow.channels // groups) * self.after(flow, site).channels

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        make = DepthwiseConv2d if self.depthwise else nn.Conv2d
        return make(
            copies * flow.channels,
            copies * self.after(flow, site).channels,
            self.kernel,
            stride=self._stride(site),
            padding=self.dilation * (self.kernel // 2),
            dilation=self.dilation,
            groups=copies * (flow.channels if self.depthwise else 1),
            bias=False,
        )

    def macs(self, flow: Flow, site: Site) -> int:
        return self._weights(flow, site) * self.after(flow, site).resolution ** 2

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return self._weights(flow, site)


@dataclass(frozen=True)
class Pool(Free):
    """Pooling at the stride of the site, followed by a BatchNorm when the normalization says so."""

    kind: Literal["max", "average"]
    kernel: int = 3
    bare: bool = False

    def _normalized(self, norm: Normalization) -> bool:
        return norm.pool_bn and not self.bare

    def after(self, flow: Flow, site: Site) -> Flow:
        return Flow(flow.channels, flow.resolution // site.stride)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        padding = (self.kernel - 1) // 2
        pool: nn.Module = (
            nn.MaxPool2d(self.kernel, site.stride, padding)
            if self.kind == "max"
            else nn.AvgPool2d(self.kernel, site.stride, padding, count_include_pad=False)
        )
        return (
            nn.Sequential(pool, nn.BatchNorm2d(flow.channels, affine=norm.affine)) if self._normalized(norm) else pool
        )

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return 2 * flow.channels if self._normalized(norm) and norm.affine else 0


@dataclass(frozen=True)
class Halves(Free):
    """Two 1×1 convolutions of stride 2, the second shifted by one pixel, concatenated (DARTS' factorized reduction)."""

    def after(self, flow: Flow, site: Site) -> Flow:
        return Flow(site.channels_out, flow.resolution // 2)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return ShiftedHalves(flow.channels, site.channels_out, copies)

    def macs(self, flow: Flow, site: Site) -> int:
        return flow.channels * site.channels_out * (flow.resolution // 2) ** 2

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return flow.channels * site.channels_out


@dataclass(frozen=True)
class Zero(Free):
    """Nothing, in the right shape."""

    def after(self, flow: Flow, site: Site) -> Flow:
        return Flow(flow.channels, flow.resolution // site.stride)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return Zeros(site.stride)


@dataclass(frozen=True)
class Sum(Free):
    """Several paths from one input, added (a residual block)."""

    paths: tuple[tuple[Row, ...], ...]

    def after(self, flow: Flow, site: Site) -> Flow:
        return walk(self.paths[0], flow, site)[-1]

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return Summed([build_rows(path, flow, site, norm, copies) for path in self.paths])

    def macs(self, flow: Flow, site: Site) -> int:
        return sum(rows_macs(path, flow, site) for path in self.paths)

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return sum(rows_params(path, flow, site, norm) for path in self.paths)


@dataclass(frozen=True)
class Join(Free):
    """Concatenation of `channels_out / channels_in` feature maps; the module takes them as separate arguments."""

    def after(self, flow: Flow, site: Site) -> Flow:
        return Flow(site.channels_out, flow.resolution)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return Concatenate()


@dataclass(frozen=True)
class Classify(Free):
    """Global average pooling and a linear layer."""

    def after(self, flow: Flow, site: Site) -> Flow:
        return Flow(site.channels_out, 1)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        assert copies == 1, "a classifier stands alone"
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(flow.channels, site.channels_out))

    def macs(self, flow: Flow, site: Site) -> int:
        return flow.channels * site.channels_out

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return (flow.channels + 1) * site.channels_out


def walk(rows: Sequence[Row], flow: Flow, site: Site) -> list[Flow]:
    """The flow before each row, and after the last."""
    flows = [flow]
    for row in rows:
        flows.append(row.after(flows[-1], site))
    return flows


def build_rows(rows: Sequence[Row], flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
    """The rows as one module; `copies` of them with weights of their own run side by side in the channels."""
    built = [row.build(before, site, norm, copies) for row, before in zip(rows, walk(rows, flow, site), strict=False)]
    return built[0] if len(built) == 1 else nn.Sequential(*built)


def rows_macs(rows: Sequence[Row], flow: Flow, site: Site) -> int:
    """Multiply-adds of convolutions and linear layers."""
    return sum(row.macs(before, site) for row, before in zip(rows, walk(rows, flow, site), strict=False))


def rows_params(rows: Sequence[Row], flow: Flow, site: Site, norm: Normalization) -> int:
    """Learnable parameters."""
    return sum(row.params(before, site, norm) for row, before in zip(rows, walk(rows, flow, site), strict=False))
