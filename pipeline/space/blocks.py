"""The rows of inverted bottlenecks: the shortcut around them and the squeeze-excite within."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from pipeline.space.layers import Flow, Free, Normalization, Row, build_rows, rows_macs, rows_params, walk
from pipeline.space.modules import Residual, SqueezeExcite
from pipeline.space.sites import Site

_SQUEEZED_SHARE = 4


@dataclass(frozen=True)
class Shortcut(Free):
    """x + rows(x) where the rows keep the shape, and rows(x) alone where they cannot."""

    rows: Sequence[Row]

    def after(self, flow: Flow, site: Site) -> Flow:
        return walk(self.rows, flow, site)[-1]

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        branch = build_rows(self.rows, flow, site, norm, copies)
        return Residual(branch) if self._keeps_shape(flow, site) else branch

    def _keeps_shape(self, flow: Flow, site: Site) -> bool:
        return self.after(flow, site) == flow

    def macs(self, flow: Flow, site: Site) -> int:
        return rows_macs(self.rows, flow, site)

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        return rows_params(self.rows, flow, site, norm)


@dataclass(frozen=True)
class Excite(Free):
    """Squeeze-excite (Hu et al., 2018): every channel times a gate that sees the mean of all channels.

    As in EfficientNet, the gate squeezes to a quarter of what enters the *block*: a quarter of the expanded width
    would have more weights than the rest of the block.
    """

    def _squeezed(self, site: Site) -> int:
        return max(1, site.channels_in // _SQUEEZED_SHARE)

    def build(self, flow: Flow, site: Site, norm: Normalization, copies: int) -> nn.Module:
        return SqueezeExcite(flow.channels, self._squeezed(site), copies)

    def macs(self, flow: Flow, site: Site) -> int:
        return 2 * flow.channels * self._squeezed(site)

    def params(self, flow: Flow, site: Site, norm: Normalization) -> int:
        squeezed = self._squeezed(site)
        return 2 * flow.channels * squeezed + flow.channels + squeezed
