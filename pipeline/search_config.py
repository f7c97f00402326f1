"""[search]: how the architecture is searched."""

from typing import Annotated, Literal

from pydantic import Field

from pipeline.section import (
    WITHOUT_EFFECT,
    Cells,
    Channels,
    Count,
    CountOrZero,
    NonNegative,
    PixelsOrZero,
    Positive,
    Rate,
    RateOrZero,
    Section,
    Share,
    Terms,
    TrainingBatch,
)

Method = Literal["idarts", "darts", "first-order", "t1t2", "cg", "reverse", "truncated", "bvfim"]


class SearchConfig(Section):
    """The constrained search: T weight steps, then one architecture step along the hypergradient."""

    essential = ("epochs", "batch_size", "channels")
    method: Method = "idarts"
    """How the architecture gradient is computed: idarts, darts, first-order, t1t2, cg, reverse, truncated or bvfim."""
    cells: Cells = 6
    """Cells of the supernet. Where there is one for each stage, nothing shows that a cell must pass on what came in:
    on NAS-Bench-201 two per stage find better cells than one in the same minutes."""
    channels: Channels = 8
    """Channels of its first cell."""
    resolution: PixelsOrZero = 0
    """Pixels a side that the supernet and short trainings see, fewer being faster; 0 for those of [data]. Latency is
    always that of the deployed network at [data] resolution."""
    epochs: Count = 12
    """Passes over the training half."""
    batch_size: TrainingBatch = 32
    """Images per step, training and validation alike."""
    validation_batches: Count = 1
    """Validation batches that the mixture, or a group of networks, is judged by, together; more of them, less noise."""
    inner_steps: CountOrZero = 0
    """T: weight steps between two architecture steps; 0 takes 64, or fewer in a search that is short. reverse and
    truncated go back through as many steps, 16 where it is 0."""
    neumann_terms: Terms = 2
    """K: terms of the Neumann series after the first (idarts); steps of cg and truncated likewise."""
    paths: Literal["fair", "mixture"] = "fair"
    """fair: a weight step trains one network of a group that has each operation once per edge, and after every group
    another is judged on validation images, for a third of the time; mixture: every step runs all operations, weighted
    (DARTS), three times dearer per weight step."""
    implicit_networks: Annotated[int, Field(ge=2, le=64)] = 2
    """fair: networks of a group that the implicit part is taken of; more need that much more time and memory."""
    products: Literal["exact", "finite_difference", "gauss_newton"] = "finite_difference"
    """Second derivatives by double backward (exact), by differences of gradients (half the cost, rough on ReLU), or
    with the Gauss-Newton matrix for the Hessian: never negative curvature, as dear as exact ones."""
    gamma: NonNegative = 0.0
    """Step of the Neumann series (bvfim: of its descents); 0 takes the current weight learning rate."""
    barrier_steps: Count = 3
    """bvfim: descents per architecture step, two gradients each."""
    barrier_tau: Positive = 1.0
    """bvfim: tau, the first weight of the barrier."""
    barrier_gap: Positive = 1.0
    """bvfim: mu2, how far the training loss may rise at first, as a share of itself."""
    barrier_decay: Annotated[float, Field(ge=1.0, le=1e9, allow_inf_nan=False)] = 1.01
    """bvfim: both are divided by this at every architecture step, down to a thousandth."""
    weight_lr: Rate = 0.05
    """First learning rate of the supernet's weights (SGD, Nesterov 0.9, cosine)."""
    weight_lr_min: RateOrZero = 0.001
    """Last learning rate."""
    weight_decay: RateOrZero = 3e-4
    """Weight decay of the supernet's weights."""
    clip: Positive = 5.0
    """Gradient norm at which weight gradients are clipped."""
    alpha_lr: RateOrZero = 0.0
    """Learning rate of the architecture (Adam, betas 0.5 and 0.999); 0 lets alpha travel by about 3 over the whole
    search, however many steps it has, so that a long search can decide and a short one does not stand still."""
    alpha_decay: RateOrZero = 1e-3
    """Weight decay of the architecture."""
    warmup_share: Share = 0.3
    """Share of the epochs, rounded down, in which only the weights are trained, so that alpha judges trained
    operations."""
    scale: Literal["shifted", "literal", "off"] = "shifted"
    """Latency-scaled softmax: shifted (cheaper operations weigh more at equal alpha), literal (eq. 9 as printed),
    off (plain DARTS)."""
    penalty: RateOrZero = 1.0
    """First value of lambda, the weight of the budget penalty; it rises while the budget is missed and falls below."""
    penalty_rate: RateOrZero = 0.05
    """Relative change of lambda per architecture step."""
    checkpoint_s: Annotated[NonNegative, WITHOUT_EFFECT] = 60.0
    """Seconds between two checkpoints; the end of an epoch saves one as well."""
    allow_unvalidated: bool = False
    """Search with a latency table that misses its validity gate; every summary then says so."""
