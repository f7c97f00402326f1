"""The contract holds for a sound export, and every promise broken on purpose is caught by name."""

import copy
import json
import re
from dataclasses import replace

import onnx
import pytest
import torch
from onnx import numpy_helper

from pipeline.artifacts.labels import Labels
from pipeline.deploy.clauses import CLAUSES
from pipeline.deploy.contract import Budget, check_contract
from pipeline.deploy.deployed import Deployed
from pipeline.errors import PromiseBroken, UserError
from pipeline.latency.budget_rule import Measured
from pipeline.latency.statistics import Interval
from pipeline.space.plan import count_macs
from tests.deploy.conftest import LABELS, with_limits

QUICK = tuple(clause for clause in CLAUSES if clause.name not in ("agreement", "accuracy", "macs"))


def broken_clauses(export, clauses=CLAUSES) -> list[str]:
    with pytest.raises(PromiseBroken) as caught:
        check_contract(export, clauses)
    assert caught.value.exit_code == 3
    return re.findall(r"^  ([a-z ]+) \(", str(caught.value), re.MULTILINE)


def edit(export, change) -> None:
    model = onnx.load(export.model_path)
    change(model)
    onnx.save(model, export.model_path)


def test_a_sound_export_keeps_every_clause(export):
    verdicts = {verdict.clause.name: verdict.finding for verdict in check_contract(export, CLAUSES)}
    assert list(verdicts) == [clause.name for clause in CLAUSES]
    network = export.trained.network
    macs = count_macs(network.skeleton, network.genotype)
    assert verdicts["macs"].figures == {"graph": macs, "torch": macs, "formula": macs}
    assert verdicts["agreement"].figures["images"] == 70
    assert len(verdicts["parity"].figures) == 7
    assert verdicts["params"].figures["folded"] == verdicts["params"].figures["initializers"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_batch_norm_left_in_training_mode(export):
    deployed = Deployed(export.trained, uint8_input=False)
    deployed.network = copy.deepcopy(export.trained.network)
    deployed.train()
    torch.onnx.export(
        deployed,
        (torch.rand(2, 3, 16, 16),),
        export.model_path,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=20,
        dynamo=False,
    )
    assert {"graph", "parity", "params"} <= set(broken_clauses(export))


@pytest.mark.parametrize("place", ["model.onnx", "labels.txt", "data"])
def test_a_swapped_label(export, place):
    swapped = (LABELS[1], LABELS[0], *LABELS[2:])
    if place == "labels.txt":
        Labels(swapped).write(export.folder / "labels.txt")
    elif place == "data":
        export = replace(export, labels=swapped)
    else:

        def change(model):
            next(prop for prop in model.metadata_props if prop.key == "labels").value = json.dumps(swapped)

        edit(export, change)
    assert broken_clauses(export, QUICK) == ["labels"]


def test_a_truncated_file(export):
    content = export.model_path.read_bytes()
    export.model_path.write_bytes(content[: len(content) * 2 // 3])
    assert broken_clauses(export) == ["file"]


@pytest.mark.parametrize(
    ("limit", "clause"),
    [
        ({"max_macs": 1_000_000}, "mac limit"),
        ({"max_params": 1_000}, "param limit"),
        ({"max_file_mb": 0.01}, "file size"),
        ({"budgets": (Budget(0.5, 50),)}, "latency"),
        ({"budgets": (Budget(2.0, 50), Budget(1.4, 99))}, "latency"),
        ({"max_noise_floor": 0.005}, "latency"),
        ({"tolerance": 1e-12}, "parity"),
    ],
)
def test_every_limit_is_a_clause(export, limit, clause):
    assert broken_clauses(with_limits(export, **limit), QUICK) == [clause]


def test_the_figures_are_in_the_sentence(export):
    with pytest.raises(PromiseBroken, match=r"mac limit .*macs 1\d{6}, limit 1000000"):
        check_contract(with_limits(export, max_macs=1_000_000), QUICK)


def test_a_latency_over_the_budget_comes_with_what_to_do(export):
    words = r"p50 is 1 ms \(95 % between 0.99 and 1.01\) for a budget of 0.5 ms; the noise floor is 1.0% "
    advice = r".*run the same command again .* `pipeline discretize --budget-ms 0.475`"
    with pytest.raises(PromiseBroken, match=words + advice):
        check_contract(with_limits(export, budgets=(Budget(0.5, 50),)), QUICK)


@pytest.mark.parametrize(("budget_ms", "marked"), [(1.0, True), (1.009, True), (1.011, False)])
def test_a_budget_has_no_slack_and_what_is_within_noise_of_it_is_marked(export, budget_ms, marked):
    verdicts = check_contract(with_limits(export, budgets=(Budget(budget_ms, 50),)), QUICK)
    assert verdicts[-1].finding.figures["within_noise_of_budget"] is marked
    over = Budget(0.9999, 50)  # within the noise floor of 1 %, and over budget all the same
    assert broken_clauses(with_limits(export, budgets=(over,)), QUICK) == ["latency"]


def test_a_demo_that_allows_25_percent_noise_allows_no_latency_over_budget(export):
    noisy = replace(
        with_limits(export, budgets=(Budget(1.0, 50),), max_noise_floor=0.25),
        measure=lambda paths: [Measured(1.2, 1.2, 1.2, 0.24)],
    )
    assert broken_clauses(noisy, QUICK) == ["latency"]


def test_a_tail_that_is_not_known_keeps_no_promise(export):
    unknown = Measured(1.0, 1.2, 1.5, 0.01, 1.0, Interval(1.0, 1.9), Interval(1.4, 1.5))
    held = replace(export, measure=lambda paths: [unknown])
    assert broken_clauses(with_limits(held, budgets=(Budget(2.0, 95),)), QUICK) == ["latency"]
    check_contract(with_limits(held, budgets=(Budget(2.0, 99),)), QUICK)


def test_of_two_timings_the_better_at_the_promised_percentile_counts(export):
    """p50 speaks for the second, p99, which was promised, for the first; neither keeps 1 ms."""
    times = iter([Measured(0.9, 1.0, 1.1, 0.01), Measured(0.8, 1.2, 1.4, 0.01)])
    held = replace(with_limits(export, budgets=(Budget(1.0, 99),)), measure=lambda paths: [next(times)])
    assert held.measured.p99_ms == 1.1


@pytest.mark.parametrize(("second_ms", "kept"), [(0.9, True), (1.2, False)])
def test_a_promise_is_broken_only_when_it_is_so_twice(export, second_ms, kept):
    times = iter([1.1, second_ms])

    def measure(paths):
        p50 = next(times)
        return [Measured(p50, p50, p50, 0.01)]

    held = replace(with_limits(export, budgets=(Budget(1.0, 50),)), measure=measure)
    if kept:
        check_contract(held, QUICK)
    else:
        assert broken_clauses(held, QUICK) == ["latency"]
    assert held.measured.p50_ms == (0.9 if kept else 1.1)


def test_a_noisy_measurement_is_repeated_and_the_quiet_one_counts(export):
    floors = iter([0.5, 0.2, 0.01, 0.0])
    noisy = replace(export, measure=lambda paths: [Measured(1.0, 1.0, 1.0, next(floors))])
    assert noisy.measured.noise_floor == 0.01


def test_a_weight_that_differs_by_one_bit(export):
    def change(model):
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name.endswith("weight"))
        values = numpy_helper.to_array(tensor).copy()
        values.reshape(-1).view("int32")[0] ^= 1
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    edit(export, change)
    assert broken_clauses(export, QUICK) == ["params"]


def test_answers_of_another_network(export):
    def change(model):
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "network.head.2.weight")
        values = numpy_helper.to_array(tensor)[::-1]
        tensor.CopyFrom(numpy_helper.from_array(values.copy(), tensor.name))

    edit(export, change)
    assert broken_clauses(export) == ["parity", "agreement", "accuracy", "params"]


def test_source_paths_in_a_node(export):
    def change(model):
        model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value="File /home/someone/network.py")

    edit(export, change)
    assert broken_clauses(export, QUICK) == ["graph"]


def test_another_accuracy_than_training_measured(export):
    assert broken_clauses(replace(export, test_accuracy=0.97)) == ["accuracy"]


def test_an_answer_that_is_not_a_number(export):
    def change(model):
        tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "network.head.2.bias")
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * float("nan"), tensor.name))

    edit(export, change)
    assert "parity" in broken_clauses(export)


def test_an_error_that_the_user_can_fix_is_not_a_broken_promise(export):
    def measure(paths):
        raise UserError("no CUDA here")

    with pytest.raises(UserError, match="no CUDA here"):
        check_contract(replace(export, measure=measure), QUICK)
