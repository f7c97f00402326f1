"""The NAS-Bench-Macro space (Su et al., 2021): eight layers in three stages, three operations each.

The first layer of a stage may be `skip` too, which there is a 1×1 convolution of stride 2.
"""

from pipeline.space.layerwise import SKIP, Part, Sizes, Stage, layer_space
from pipeline.space.skeleton import Skeleton

_OPERATIONS = (SKIP, "mb3_k3", "mb6_k5")  # the digits 0, 1 and 2 of the published codes
_STAGES = tuple(Stage(layers, _OPERATIONS, _OPERATIONS) for layers in (2, 3, 3))
_FEATURES = 1280


def _sizes_of(skeleton: Skeleton) -> Sizes:
    stages = tuple(Part(factor * skeleton.channels, 2) for factor in (2, 4, 8))
    return Sizes(Part(skeleton.channels, 1), stages, _FEATURES)


_LITERATURE = Skeleton("nasbench-macro", cells=8, channels=32, resolution=32, classes=10)
NASBENCH_MACRO = layer_space(_STAGES, _sizes_of, _LITERATURE, nested=True)
