"""The loss of single images, by which they can be weighed."""

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.autodo.parameters import Rows, weights_of


def image_losses(logits: Tensor, targets: Tensor, raw_labels: Tensor | None) -> Tensor:
    """ℓ_i: cross entropy with the given label, or ½ [KL(S‖p) + KL(p‖S)] where soft labels are learned."""
    if raw_labels is None:
        return functional.cross_entropy(logits, targets, reduction="none")
    log_p, log_s = logits.log_softmax(-1), raw_labels.log_softmax(-1)
    # Σ S (ln S − ln p) + Σ p (ln p − ln S)
    return 0.5 * ((log_s.exp() - log_p.exp()) * (log_s - log_p)).sum(-1)


def weighted_loss(logits: Tensor, targets: Tensor, rows: Rows, mean_weight: float | Tensor = 1.0) -> Tensor:
    """mean_i s(λW_i) / mean_weight · ℓ_i"""
    losses = image_losses(logits, targets, rows.get("labels"))
    return torch.mean(weights_of(rows["weights"]) / mean_weight * losses)
