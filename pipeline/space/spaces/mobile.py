"""The mobile space: stages of inverted bottlenecks, as MobileNetV2, MnasNet and EfficientNet-Lite are made of.

Every layer chooses kernel, expansion and squeeze-excite; layers after the first of a stage may be left out.
MobileNetV2 is one of its networks at 32 channels, EfficientNet-Lite0 at 40.
"""

from pipeline.errors import UserError
from pipeline.space.layerwise import SKIP, Part, Sizes, Stage, layer_space
from pipeline.space.skeleton import Skeleton

_NARROW = ("mb1_k3", "mb1_k5", "mb1_k7", "mb1_k3_se", "mb1_k5_se", "mb1_k7_se")
_PLAIN = ("mb3_k3", "mb3_k5", "mb3_k7", "mb6_k3", "mb6_k5", "mb6_k7")
_EXCITED = ("mb3_k3_se", "mb3_k5_se", "mb3_k7_se", "mb6_k3_se", "mb6_k5_se", "mb6_k7_se")
_FIRST = (*_PLAIN, *_EXCITED)
_LATER = (SKIP, *_FIRST)

_STAGES = (
    Stage(1, _NARROW),
    Stage(4, _FIRST, _LATER),
    Stage(4, _FIRST, _LATER),
    Stage(4, _FIRST, _LATER),
    Stage(4, _FIRST, _LATER),
    Stage(4, _FIRST, _LATER),
    Stage(1, _FIRST),
)

# channels, which is the width of the third stage -> widths of the stem and of all stages; others are scaled from the
# nearest row below
_WIDTHS = {
    32: (32, (16, 24, 32, 64, 96, 160, 320)),  # MobileNetV2
    40: (32, (16, 24, 40, 80, 112, 192, 320)),  # EfficientNet-Lite0
}
_FEATURES = 1280
_DIVISOR = 8

# strides of the stem and of the stages' first layers
_IMAGENET_STRIDES = (2, (1, 2, 2, 2, 1, 2, 1))
_CIFAR_STRIDES = (1, (1, 1, 2, 2, 1, 2, 1))

# A step at 96 px, batch 32 and 32 channels needs 4.8 GB and 24 s with all operations, 1.8 GB and 3 s with two.
_PATHS = 2


def _sizes_of(skeleton: Skeleton) -> Sizes:
    if skeleton.channels % _DIVISOR:
        raise UserError(f"channels must be a multiple of {_DIVISOR} in the space 'mobile', not {skeleton.channels}")
    row = max((known for known in _WIDTHS if known <= skeleton.channels), default=min(_WIDTHS))
    scale = skeleton.channels / row
    stem, stages = _WIDTHS[row]
    stem_stride, strides = _IMAGENET_STRIDES if skeleton.imagenet_stem else _CIFAR_STRIDES
    parts = tuple(Part(_round(width * scale), stride) for width, stride in zip(stages, strides, strict=True))
    return Sizes(Part(_round(stem * scale), stem_stride), parts, _round(_FEATURES * max(1.0, scale)))


def _round(width: float) -> int:
    """The nearest multiple of 8 that is not more than a tenth smaller, as MobileNets are scaled."""
    rounded = max(_DIVISOR, int(width + _DIVISOR / 2) // _DIVISOR * _DIVISOR)
    return rounded if rounded >= 0.9 * width else rounded + _DIVISOR


_LITERATURE = Skeleton("mobile", cells=22, channels=32, resolution=224, classes=1000)
MOBILE = layer_space(_STAGES, _sizes_of, _LITERATURE, paths=_PATHS, nested=True)
