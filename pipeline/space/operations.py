"""Every operation a space may name, as rows; building, multiply-adds and parameters all come from the same rows."""

from itertools import product

from torch import nn

from pipeline.errors import UserError
from pipeline.space.blocks import Excite, Shortcut
from pipeline.space.layers import (
    SITE_STRIDE,
    Classify,
    Conv,
    Flow,
    Halves,
    Identity,
    Join,
    Norm,
    Normalization,
    Pool,
    Relu,
    Row,
    Sum,
    Zero,
    build_rows,
    rows_macs,
    rows_params,
)
from pipeline.space.sites import Site

Rows = tuple[Row, ...]


def _separable(kernel: int) -> Rows:
    first: Rows = (Relu(), Conv(kernel, stride=SITE_STRIDE, depthwise=True), Conv(), Norm())
    return (*first, Relu(), Conv(kernel, depthwise=True), Conv(width="out"), Norm())


def _dilated(kernel: int) -> Rows:
    return (Relu(), Conv(kernel, stride=SITE_STRIDE, depthwise=True, dilation=2), Conv(width="out"), Norm())


def _plain(kernel: int) -> Rows:
    return (Relu(), Conv(kernel, stride=SITE_STRIDE, width="out"), Norm())


def _activated(kernel: int) -> Rows:
    return (Conv(kernel, stride=SITE_STRIDE, width="out"), Norm(), Relu())


def _inverted(expansion: int, kernel: int, excited: bool) -> Rows:
    """MBConv (Sandler et al., 2018): widen, filter every channel, gate, narrow; linear at the end."""
    widen: Rows = (Conv(expansion=expansion), Norm(), Relu()) if expansion > 1 else ()
    filter_channels: Rows = (Conv(kernel, stride=SITE_STRIDE, depthwise=True), Norm(), Relu())
    gate: Rows = (Excite(),) if excited else ()
    return (Shortcut((*widen, *filter_channels, *gate, Conv(width="out"), Norm())),)


# mb6_k5: expansion 6, kernel 5; mb6_k5_se: with squeeze-excite
_INVERTED: dict[str, Rows] = {
    f"mb{expansion}_k{kernel}{'_se' * excited}": _inverted(expansion, kernel, excited)
    for expansion, kernel, excited in product((1, 3, 6), (3, 5, 7), (False, True))
}
_FACTORIZED: Rows = (Relu(), Halves(), Norm())
_RESIDUAL: Rows = (
    Sum(
        (
            (*_plain(3), Relu(), Conv(3), Norm()),
            (Pool("average", kernel=2, bare=True), Conv(width="out")),
        )
    ),
)

# name -> rows at stride 1, rows at any other stride
_OPERATIONS: dict[str, tuple[Rows, Rows]] = {
    # candidates
    "none": ((Zero(),), (Zero(),)),
    "skip_connect": ((Identity(),), _FACTORIZED),
    "max_pool_3x3": ((Pool("max"),), (Pool("max"),)),
    "avg_pool_3x3": ((Pool("average"),), (Pool("average"),)),
    "sep_conv_3x3": (_separable(3), _separable(3)),
    "sep_conv_5x5": (_separable(5), _separable(5)),
    "dil_conv_3x3": (_dilated(3), _dilated(3)),
    "dil_conv_5x5": (_dilated(5), _dilated(5)),
    "nor_conv_1x1": (_plain(1), _plain(1)),
    "nor_conv_3x3": (_plain(3), _plain(3)),
    "skip": ((Identity(),), (Conv(stride=SITE_STRIDE, width="out"), Norm())),
    **{name: (rows, rows) for name, rows in _INVERTED.items()},
    # fixed parts
    "stem": ((Conv(3, width="out"), Norm()), ()),
    "stem_quarter": (
        (),
        (Conv(3, stride=2, width="half"), Norm(), Relu(), Conv(3, stride=2, width="out"), Norm()),
    ),
    "stem_half": ((), (Relu(), Conv(3, stride=2, width="out"), Norm())),
    "conv_1x1_relu": (_activated(1), _activated(1)),
    "conv_3x3_relu": (_activated(3), _activated(3)),
    "preprocess": (_plain(1), _FACTORIZED),
    "residual_reduction": ((), _RESIDUAL),
    "concat": ((Join(),), ()),
    "head": ((Classify(),), ()),
    "head_norm": ((Norm(), Relu(), Classify()), ()),
}


_ANY_CHANNELS = 8


def rows_of(site: Site) -> Rows:
    """The rows of the site's operation at its stride."""
    if site.operation not in _OPERATIONS:
        raise UserError(f"unknown operation {site.operation!r}; known are {', '.join(_OPERATIONS)}")
    plain, strided = _OPERATIONS[site.operation]
    return plain if site.stride == 1 else strided


def is_parameter_free(operation: str) -> bool:
    """Whether the operation has nothing to learn where it need not change the shape: skips, pools, none."""
    return params(Site(operation, _ANY_CHANNELS, _ANY_CHANNELS, 1, _ANY_CHANNELS), Normalization()) == 0


def build(site: Site, norm: Normalization, copies: int = 1) -> nn.Module:
    """The module that runs at the site; several copies of it take and give that many feature maps side by side."""
    return build_rows(rows_of(site), Flow(site.channels_in, site.resolution), site, norm, copies)


def macs(site: Site) -> int:
    """Multiply-adds of the convolutions and linear layers at the site ("+×" in the paper), never doubled."""
    return rows_macs(rows_of(site), Flow(site.channels_in, site.resolution), site)


def params(site: Site, norm: Normalization) -> int:
    """Learnable parameters at the site."""
    return rows_params(rows_of(site), Flow(site.channels_in, site.resolution), site, norm)
