"""Command lines that nobody should have typed."""

from functools import partial
from pathlib import Path
from random import Random

from tests.campaign.case import Case

_REFUSED = (
    "nonsense", "--nonsense", "search --nonsense", "search --budget-ms nan", "search --budget-ms -1",
    "search --budget-ms inf", "search --budget-ms abc", "search --budget-ms", "search --epochs 0",
    "search --epochs 1.5", "search --epochs 99999999999999999999", "search --percentile 42", "search --method magic",
    "search --table nowhere.json", "search --table .", "search --run ../x", "search --run a/b", "search --run ..",
    "search --run \x1b[2J", "search --run " + "a" * 200, "search --config nowhere.toml", "search --config .",
    "search --config /dev/zero", "search --config runs/default/record", "search extra words",
    "discretize --budget-ms 5,,7", "discretize --budget-ms 5,abc", "discretize --budget-ms ,",
    "discretize --budget-ms 0.000001", "discretize --budget-ms nan,5", "discretize --rule random",
    "discretize --from-kit nowhere", "discretize --from-kit .", "discretize --from-kit pipeline.toml",
    "discretize --from-kit a --write-kit b", "discretize --write-kit runs", "discretize --write-kit pipeline.toml",
    "discretize --write-kit pipeline.toml/kit", "retrain --budget-ms 7", "retrain --budget-ms nan",
    "retrain --genotype nowhere", "retrain --genotype .", "retrain --genotype pipeline.toml", "retrain --epochs -1",
    "retrain --data nowhere", "retrain --learn everything", "retrain --learn weights", "retrain --audit",
    "retrain --learn weights --guide nowhere", "retrain --learn weights --guide-share 2", "export --format tflite",
    "export --budget-ms 7", "export --from-kit nowhere", "export --from-kit pipeline.toml", "export --write-kit runs",
    "profile --device tpu", "profile --device cuda", "profile --device cpu:9", "profile --threads 0",
    "profile --threads 512", "profile --precision fp16", "profile --precision ", "profile --precision fp32,,",
    "profile --backend onnx", "profile --validate -1", "profile --from-kit nowhere", "profile --write-kit runs",
    "profile --from-kit pipeline.toml", "init --preset nothing", "init", "init --config nowhere/x/../\x00",
    "init --config .", "inspect --run nowhere", "inspect --genotype nowhere", "inspect --genotype .",
    "inspect --genotype a --run b", "inspect --run default --cells 0", "inspect --run default --channels -1",
    "inspect --run default --resolution 7", "inspect --run default --resolution 100000",
    "inspect --run default --classes 0", "inspect --run default --in-channels 0", "inspect --run default --table .",
    "inspect --run default --device tpu", "inspect --run default --threads 512", "inspect --run default --batch 0",
    "inspect --run default --cells 99999999", "inspect --run default --channels 99999999999999999999",
    "inspect --run default --measure --channels 2000000", "bench", "bench nowhere.onnx", "bench .",
    "bench pipeline.toml", "bench exports/default/model.onnx --shape 1,1,9,9",
    "bench exports/default/model.onnx --shape x", "bench exports/default/model.onnx --shape ,",
    "bench exports/default/model.onnx --shape a=1,1,8,8", "bench exports/default/model.onnx --shape 0,1,8,8",
    "bench exports/default/model.onnx --shape -1,1,8,8", "bench exports/default/model.onnx --batch 0",
    "bench exports/default/model.onnx --shape 99999999999,1,8,8", "bench exports/default/model.onnx --threads 512",
    "bench exports/default/model.onnx --device cuda:9", "bench a b c", "bench --compare exports/default/model.onnx",
    "bench exports/default/model.onnx --config nowhere.toml", "rank", "rank --genotypes nowhere",
    "rank --genotypes .", "rank --genotypes pipeline.toml", "rank --genotypes pipeline.toml --minutes -1",
    "rank --genotypes pipeline.toml --minutes nan", "compare --rivals nothing", "compare --rivals ,",
    "compare --seeds 0", "compare --minutes -1", "compare --minutes nan", "compare --budget-ms 7",
    "compare --run nowhere",
    "report --run nowhere", "report --run ../x", "report --budget-ms 7", "list --config nowhere/pipeline.toml extra",
    "teach", "teach --teacher nowhere", "teach --teacher timm:", "teach --epochs 0", "retrain --teacher .",
    "retrain --teacher timm:../x", "retrain --start nonsense", "retrain --start run:../x",
    "run --budget-ms 0", "run --percentile 51", "run --run .hidden", "check --config nowhere.toml",
)  # fmt: skip
_DONE = (
    "--help", "--version", "", "search --help", "list", "list --json", "report", "check", "check --json",
    "inspect", "inspect --run default --json", "search", "discretize", "retrain", "export", "profile", "--debug list",
)  # fmt: skip


def draw(random: Random) -> Case:
    """A command line that must be refused, or one that must work."""
    if random.random() < 0.1:
        line = random.choice(_DONE)
        return Case("flags", line, tuple(line.split()), must="be done")
    line = random.choice(_REFUSED)
    arguments = tuple(line.split(" ")) if line.endswith(" ") else tuple(line.split())
    return Case("flags", line[:80], arguments, partial(_earlier, random=random.randrange(4)), "be refused")


def _earlier(project: Path, random: int) -> None:
    """Sometimes with flags of an earlier command of the run."""
    if random == 0:
        (project / "runs" / "default" / "flags.json").write_text('{"target": {"budget_ms": 1.0}}\n')
