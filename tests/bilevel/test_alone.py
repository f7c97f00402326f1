"""The library is for anyone with torch: nothing else of the project, nor what the project depends on, is loaded."""

import subprocess
import sys

PROGRAM = """
import sys
for name in ("typer", "onnx", "onnxruntime", "pydantic", "rich", "scipy", "torchvision", "timm", "sklearn"):
    sys.modules[name] = None  # any import of it fails
import torch
from pipeline.bilevel import ValueFunction, hypergradient

w, alpha = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
inner = lambda w, alpha: ((w[0] - alpha[0]) ** 2).sum()
outer = lambda w, alpha: (w[0] ** 2).sum()
print(hypergradient(inner, outer, [w], [alpha], ValueFunction(0.1, 2, 1.0, 0.0, 0.0, 1.0)))
print(sorted(name for name in sys.modules if name.startswith("pipeline.") and not name.startswith("pipeline.bilevel")))
"""


def test_bilevel_needs_nothing_but_torch() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "[]"
