"""When a search has gone wrong, and when it has not."""

from pathlib import Path

import numpy as np
import torch

from pipeline.search.guards import report_architecture
from tests.search.problem import finish, make_search, write_images


def test_collapse_to_either_end_is_noticed(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    operations = search.constraint.space.kinds[0].operations
    for operation, share in (("skip_connect", "parameter_free_share"), ("nor_conv_3x3", "costliest_share")):
        alpha = torch.zeros(6, 5)
        alpha[:, operations.index(operation)] = 20.0
        report = report_architecture(search.constraint, [alpha], [alpha])
        assert report.collapse is not None and getattr(report, share) == 1.0
    alpha = torch.zeros(6, 5)
    alpha[::2, operations.index("nor_conv_3x3")] = 20.0
    assert report_architecture(search.constraint, [alpha], [alpha]).collapse is None


def test_a_tight_budget_is_no_collapse(tmp_path: Path) -> None:
    """α then is for skips, and what validation says for convolutions; within the limits the costliest may be best."""
    search, roomy = make_search(tmp_path), make_search(tmp_path, share=9.0)
    operations = search.constraint.space.kinds[0].operations
    skips, convolutions = torch.zeros(6, 5), torch.zeros(6, 5)
    skips[:, operations.index("skip_connect")] = 20.0
    convolutions[:, operations.index("nor_conv_3x3")] = 20.0
    assert report_architecture(search.constraint, [skips], [convolutions]).collapse is None
    assert report_architecture(roomy.constraint, [convolutions], [convolutions]).collapse is None


def test_guards_leave_the_search_alone(tmp_path: Path) -> None:
    watched, alone = make_search(tmp_path), make_search(tmp_path)
    watched.check_hypergradient()
    while not watched.finished:
        watched.advance()
        if watched.at_epoch_end:
            watched.end_epoch()
    for ours, theirs in zip(finish(watched), finish(alone), strict=True):
        assert torch.equal(ours, theirs)


def test_pools_count_as_operations_that_learn_nothing(tmp_path: Path) -> None:
    search = make_search(tmp_path)
    operations = search.constraint.space.kinds[0].operations
    alpha = torch.zeros(6, 5)
    alpha[::2, operations.index("avg_pool_3x3")] = 20.0
    alpha[1::2, operations.index("skip_connect")] = 20.0
    assert report_architecture(search.constraint, [alpha], [alpha]).parameter_free_share == 1.0


def test_guards_judge_by_batches_of_all_classes(tmp_path: Path) -> None:
    """A folder's images come class by class; networks are judged with the statistics of a batch, which is mixed."""
    write_images(tmp_path / "data.npz")
    with np.load(tmp_path / "data.npz") as found:
        order = np.argsort(found["y_train"], kind="stable")
        sorted_by_class = {name: found[name][order] if "train" in name else found[name] for name in found.files}
    np.savez(tmp_path / "data.npz", **sorted_by_class)
    search = make_search(tmp_path)
    for index in range(search.validation.per_epoch):
        first, again = (search.validation.fixed_batch(index) for _ in range(2))
        assert len(first.labels.unique()) > 1 and torch.equal(first.images, again.images)
