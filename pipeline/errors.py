"""The one family of errors a user may see: each carries an exit code and a sentence that can be acted on."""


class PipelineError(Exception):
    """Something the user should read; the CLI prints the sentence and leaves with `exit_code`."""

    exit_code = 2


class UserError(PipelineError):
    """The user can fix it: a bad value, a missing file, a table of another machine."""


class PromiseBroken(PipelineError):
    """A promise cannot be kept: the budget is infeasible, a clause of the contract failed."""

    exit_code = 3


class Interrupted(PipelineError):
    """Stopped by the user or the system; the state was saved first."""

    exit_code = 130
