"""A selection that is stopped measures nothing twice, and leaves nothing of budgets that are no longer asked."""

from pathlib import Path

import pytest

from pipeline.budget.targets import make_targets
from pipeline.errors import Interrupted
from pipeline.latency.budget_rule import Measured
from pipeline.selection.certification import Measure
from pipeline.selection.measurements import Measurements
from pipeline.selection.records import TableState
from pipeline.space.extremes import cheapest_genotype
from pipeline.space.genotype import Genotype
from pipeline.space.skeleton import Skeleton
from pipeline.stages import discretize as module
from pipeline.stages.discretize import Prospect
from tests.latency.fakes import FINGERPRINT
from tests.selection.fakes import DARTS, FakeDevice, FakePredictor
from tests.stages.made_search import SKELETON, budget_at, make_context, run_with


def test_what_was_measured_before_an_interrupt_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unbroken selection measures two networks; after an interrupt at the second, the first is read back."""

    def open_with(measure: Measure) -> None:
        prospect = Prospect(make_targets([SKELETON], FakePredictor), TableState(True), measure, FINGERPRINT)
        monkeypatch.setattr(module, "open_prospect", lambda _: prospect)

    def stop_at_the_second(skeleton: Skeleton, genotype: Genotype) -> Measured:
        if first.calls:
            raise KeyboardInterrupt
        return first(skeleton, genotype)

    whole, first, second = (FakeDevice(lambda ms: 1.1 * ms) for _ in range(3))
    run_with(make_context(tmp_path / "whole"), whole)
    context = make_context(tmp_path / "stopped")
    open_with(stop_at_the_second)
    with pytest.raises(Interrupted, match="measurements made so far are saved"):
        module.run(context)
    open_with(second)
    module.run(context)
    assert [*first.calls, *second.calls] == whole.calls
    assert context.run.certificate.read_bytes() == make_context(tmp_path / "whole").run.certificate.read_bytes()


@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_only_what_is_known_well_is_read_back(tmp_path: Path, noise: float) -> None:
    genotype, path = cheapest_genotype(DARTS, FakePredictor(SKELETON).costs()), tmp_path / "measured.jsonl"
    calls = []
    for _ in range(2):
        device = FakeDevice(lambda ms: ms, [noise])
        found = Measurements(device, path, "this machine", 50, 0.05)(SKELETON, genotype)
        assert found == device(SKELETON, genotype)
        calls.append(len(device.calls) - 1)
    assert calls == [1, 0 if noise == 0.01 else 1]
    other = FakeDevice(lambda ms: ms)
    Measurements(other, path, "another machine", 50, 0.05)(SKELETON, genotype)
    assert other.calls


def test_what_belongs_to_no_budget_asked_goes(tmp_path: Path) -> None:
    budgets = [budget_at(share) for share in (0.1, 0.25, 0.4)]
    context = make_context(tmp_path, discretize={"budgets_ms": budgets})
    run_with(context, FakeDevice(lambda ms: ms))
    folder = context.run.genotype.parent
    (folder / "my items").mkdir()
    run_with(make_context(tmp_path, discretize={"budgets_ms": budgets[:2]}), FakeDevice(lambda ms: ms))
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"my items", *(f"{b:g}ms" for b in budgets[:2])}
    run_with(make_context(tmp_path), FakeDevice(lambda ms: ms))
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["my items"]
