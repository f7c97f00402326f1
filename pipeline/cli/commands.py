"""All commands, registered in the order of the help."""

from pipeline.cli import project, stages, inspection, reports  # noqa: I001  the order of the help
from pipeline.cli.application import app, main

__all__ = ["app", "inspection", "main", "project", "reports", "stages"]
