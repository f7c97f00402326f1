"""A selection as a process of its own, for tests that start several."""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from pipeline.budget.targets import make_targets
from pipeline.errors import PipelineError
from pipeline.selection.records import TableState
from pipeline.selection.short_training import train_shortly
from pipeline.stages import discretize, judgement
from pipeline.stages.discretize import Prospect
from tests.latency.fakes import FINGERPRINT
from tests.selection.fakes import FakeDevice, FakePredictor
from tests.stages.made_search import SKELETON, make_context

FEW: dict[str, Any] = {
    "data": {"validation_share": 0.03, "augment": "none"},
    "compute": {"threads": 1},
    "search": {"channels": 4},
    "discretize": {"evidence_minutes": 1e-6, "evidence_steps": 2, "evaluations": 20},
}


def select(folder: Path, trained: Path) -> None:
    """The stage on a fake device; the genotypes that this process trains go to `trained`."""
    measured = Prospect(
        make_targets([SKELETON], FakePredictor), TableState(True), FakeDevice(lambda ms: 0.99 * ms), FINGERPRINT
    )
    mine: list[Any] = []

    def train(*arguments: Any) -> float:
        mine.append(arguments[1].record())
        return train_shortly(*arguments)

    vars(discretize).update(_POOL=10, open_prospect=lambda _: measured)
    vars(judgement).update(train_shortly=train, guessing_loss=lambda _: math.inf)  # two steps learn nothing
    discretize.run(make_context(folder, **FEW))
    trained.write_text(json.dumps(mine))


if __name__ == "__main__":
    try:
        select(Path(sys.argv[1]), Path(sys.argv[2]) / f"{os.environ.get('RANK', '0')}.json")
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
