"""The clauses of the contract, in the order in which they are checked."""

import json
import warnings
from typing import Any

import onnx
import torch

from pipeline.artifacts.labels import Labels
from pipeline.deploy.contract import Clause, Export, Finding, Limits
from pipeline.deploy.deployed import reference_logits
from pipeline.deploy.evaluation import Session, largest_difference
from pipeline.deploy.graph import Array, count_graph_macs, float_initializers, has_side_data, read_metadata, traces
from pipeline.latency.budget_rule import Measured
from pipeline.onnx_file import BATCH, INPUT, IR_VERSION, OPSET, OUTPUT
from pipeline.space.plan import count_macs, count_params

_BATCHES = (1, 7, 64)
_ACCURACY_SLACK = 0.001
LATENCY = "latency"
_SPARING = 0.95  # of a budget that was missed: what to ask for instead
_TRAINING_ONLY = {"BatchNormalization", "Dropout"}


def _check_file(export: Export) -> Finding:
    model = export.model
    size = export.model_path.stat().st_size
    return Finding(not has_side_data(model), {"bytes": size, "nodes": len(model.graph.node)})


def _check_graph(export: Export) -> Finding:
    skeleton, model = export.trained.network.skeleton, export.model
    kind = onnx.TensorProto.UINT8 if export.deployed.uint8_input else onnx.TensorProto.FLOAT
    figures = {
        "input": _describe_value(model.graph.input[0]),
        "output": _describe_value(model.graph.output[0]),
        "opset": model.opset_import[0].version,
        "training_nodes": sorted({node.op_type for node in model.graph.node} & _TRAINING_ONLY),
        "traces": len(list(traces(model))),
    }
    side = skeleton.resolution
    wanted = {
        "input": f"{INPUT} {onnx.TensorProto.DataType.Name(kind)} [{BATCH}, {skeleton.in_channels}, {side}, {side}]",
        "output": f"{OUTPUT} FLOAT [{BATCH}, {skeleton.classes}]",
        "opset": OPSET,
        "training_nodes": [],
        "traces": 0,
    }
    alone = len(model.graph.input) == len(model.graph.output) == len(model.opset_import) == 1
    return Finding(figures == wanted and alone and model.ir_version <= IR_VERSION, figures)


def _describe_value(value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    dims = [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]
    return f"{value.name} {onnx.TensorProto.DataType.Name(tensor.elem_type)} [{', '.join(map(str, dims))}]"


def _check_labels(export: Export) -> Finding:
    sources = {
        "data": export.labels,
        "weights": export.trained.labels,
        "model.onnx": tuple(json.loads(read_metadata(export.model)["labels"])),
        "labels.txt": Labels.read(export.folder / "labels.txt").labels,
    }
    figures: dict[str, Any] = {"classes": len(export.labels)}
    for source, labels in sources.items():
        if labels != export.labels:
            pairs = enumerate(zip(labels, export.labels, strict=False))
            first = next((i for i, (found, wanted) in pairs if found != wanted), min(len(labels), len(export.labels)))
            figures[source] = f"differs from the data from class {first} on"
    return Finding(len(figures) == 1, figures)


def _check_parity(export: Export) -> Finding:
    session, random = Session(export.model_path), torch.Generator().manual_seed(0)
    figures: dict[str, Any] = {"tolerance": export.limits.tolerance}
    shape = export.deployed.example().shape[1:]
    real = torch.stack([export.test[i % len(export.test)][0] for i in range(max(_BATCHES))])  # type: ignore[arg-type]
    for count in _BATCHES:
        noise = torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=random)
        for name, images in (("random", noise), ("real", real[:count])):
            expected = reference_logits(export.trained, images)
            figures[f"{name}_{count}"] = largest_difference(expected, session.logits(images))
    differences = [value for name, value in figures.items() if name != "tolerance"]
    return Finding(max(differences) <= export.limits.tolerance, figures)


def _check_agreement(export: Export) -> Finding:
    found = export.comparison
    figures = {
        "images": found.images,
        "disagreements": found.disagreements,
        "ties": found.ties,
        "largest_difference": found.largest_difference,
    }
    return Finding(found.disagreements == 0, figures)


def _check_accuracy(export: Export) -> Finding:
    found = export.comparison.correct_file / export.comparison.images
    slack = max(_ACCURACY_SLACK, 1 / export.comparison.images)
    figures = {"file": found, "retrain": export.test_accuracy}
    return Finding(abs(found - export.test_accuracy) <= slack + 1e-9, figures)


def _check_macs(export: Export) -> Finding:
    network = export.trained.network
    figures = {
        "graph": count_graph_macs(export.model),
        "torch": count_torch_macs(export),
        "formula": count_macs(network.skeleton, network.genotype),
    }
    return Finding(len(set(figures.values())) == 1, figures)


def count_torch_macs(export: Export) -> int:
    """fvcore's count for the trained network; its total would add BatchNorm, so only these entries are taken."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from fvcore.nn import FlopCountAnalysis

        example = torch.zeros(export.deployed.example().shape)
        analysis = FlopCountAnalysis(export.trained.network, example)
        counts = analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).by_operator()
    return int(sum(counts.get(name, 0) for name in ("conv", "linear", "addmm", "matmul")))


def _check_mac_limit(export: Export) -> Finding:
    macs, limit = count_graph_macs(export.model), export.limits.max_macs
    return Finding(not limit or macs <= limit, {"macs": macs, "limit": limit})


def _check_params(export: Export) -> Finding:
    network, initializers = export.trained.network, float_initializers(export.model)
    folded = {name: weight.numpy() for name, weight in export.deployed.state_dict().items()}
    # the exporter leaves out a bias that is all zeros
    left_out = {
        name for name in folded if name not in initializers and name.endswith(".bias") and not folded[name].any()
    }
    weights = {name: weight for name, weight in folded.items() if name not in left_out}
    different = set(weights) ^ set(initializers)
    different |= {name for name in weights if name not in different and _differ(weights[name], initializers[name])}
    figures = {
        "torch": sum(p.numel() for p in network.parameters()),
        "published": count_params(network.skeleton, network.genotype),
        "folded": sum(weight.size for weight in weights.values()),
        "initializers": sum(weight.size for weight in initializers.values()),
        "zero_biases_left_out": len(left_out),
        "different": sorted(different)[:5],
    }
    return Finding(figures["torch"] == figures["published"] and not different, figures)


def _differ(one: Array, other: Array) -> bool:
    return one.shape != other.shape or one.tobytes() != other.tobytes()


def _check_param_limit(export: Export) -> Finding:
    params, limit = sum(p.numel() for p in export.trained.network.parameters()), export.limits.max_params
    return Finding(not limit or params <= limit, {"params": params, "limit": limit})


def _check_file_size(export: Export) -> Finding:
    size_mb, limit = export.model_path.stat().st_size / 1e6, export.limits.max_file_mb
    return Finding(not limit or size_mb <= limit, {"file_mb": size_mb, "limit": limit})


def _check_latency(export: Export) -> Finding:
    """The percentile ≤ budget: as measured, at a noise floor that counts, or by what the card's `basis` says."""
    measured, limits = export.measured, export.limits
    noise_floor = measured.noise_at(*limits.percentiles)
    figures: dict[str, Any] = {
        "basis": measured.basis,
        **{f"{name}_ms": value for name, value in measured.record().items()},
        **{f"budget_p{budget.percentile}_ms": budget.budget_ms for budget in limits.budgets},
        "noise_floor": noise_floor,
        "max_noise_floor": limits.max_noise_floor,
        "within_noise_of_budget": any(measured.is_within_noise_of(*budget) for budget in limits.budgets),
    }
    keeps = all(measured.keeps(*budget) for budget in limits.budgets)
    tightest_ms = min(budget.budget_ms for budget in limits.budgets)
    return Finding(
        keeps and noise_floor <= limits.max_noise_floor,
        figures,
        "other work may have slowed it: run the same command again while the machine is quiet, or let `pipeline "
        f"discretize --budget-ms {_SPARING * tightest_ms:.3g}` choose a network that leaves more of the budget",
        _describe_latency(measured, limits),
    )


def _describe_latency(measured: Measured, limits: Limits) -> str:
    """Every percentile that is promised beside its budget, and the noise."""
    found = []
    for budget_ms, percentile in limits.budgets:
        low, high = measured.interval_ms(percentile)
        near = ", within the noise of it" if measured.is_within_noise_of(budget_ms, percentile) else ""
        found.append(
            f"p{percentile} is {measured.at(percentile):.4g} ms (95 % between {low:.4g} and {high:.4g}) for a budget "
            f"of {budget_ms:g} ms{near}"
        )
    noise = f"the noise floor is {measured.noise_at(*limits.percentiles):.1%} (at most {limits.max_noise_floor:.0%})"
    return "; ".join([*found, noise])


CLAUSES: tuple[Clause, ...] = (
    Clause("file", "one sound ONNX file: full checker, strict shape inference, no side data", _check_file),
    Clause("graph", "the named input and output, any batch, no BatchNorm, no trace of this machine", _check_graph),
    Clause("labels", "data, weights, model.onnx and labels.txt name the classes alike", _check_labels),
    Clause("parity", "the logits are torch's, on random and real images in batches of 1, 7 and 64", _check_parity),
    Clause("agreement", "the same first answer as torch on the whole test set", _check_agreement),
    Clause("accuracy", "the accuracy that training measured", _check_accuracy),
    Clause("macs", "multiply-adds of the graph, of torch and of the formula are equal", _check_macs),
    Clause("mac limit", "multiply-adds within [target] max_macs", _check_mac_limit),
    Clause("params", "parameters as published, and every weight of the folded network in the file", _check_params),
    Clause("param limit", "parameters within [target] max_params", _check_param_limit),
    Clause("file size", "the file within [export] max_file_mb", _check_file_size),
    Clause(LATENCY, "within the budget on the target, at a noise floor that counts", _check_latency),
)
