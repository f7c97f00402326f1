from pathlib import Path

import pytest

from pipeline.errors import UserError
from pipeline.runner.opening import open_run


def test_an_unknown_space_is_refused_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text('[target]\nspace = "phones"\n')
    with pytest.raises(UserError, match=r"'phones'; known are .*mobile") as caught:
        open_run(tmp_path / "pipeline.toml", "run", {})
    assert caught.value.exit_code == 2
