"""A slice of the campaign with every test run, some hundreds of cases and some kills with the slow ones."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.campaign.case import Case
from tests.campaign.families import FAMILIES, draw_cases
from tests.campaign.kills import draw_kills, kill, prepare_kills
from tests.campaign.kits import measure_kits
from tests.campaign.player import fork_server, play
from tests.campaign.project import finish_project

# what needs no measured kit, trains nothing and times nothing: milliseconds each
QUICK = ("settings", "flags", "images", "genotypes", "predictions")
FAST_CASES, SLOW_CASES, KILLS = 60, 300, 10


def faults_in(cases: Iterable[Case], finished: Path, place: Path) -> list[str]:
    server, found = fork_server(), []
    for case in cases:
        ending, faults = play(case, finished, server, place)
        if faults:
            found.append(f"{case}: {', '.join(faults)}; exit {ending.code}, it said {ending.stderr[-500:]!r}")
    return found


def test_a_slice_of_every_quick_family(tmp_path: Path) -> None:
    finished = finish_project(tmp_path / "finished")
    share = FAST_CASES // len(QUICK)
    assert not [fault for name in QUICK for fault in faults_in(draw_cases(share, 1, name), finished, tmp_path)]


@pytest.mark.slow
def test_some_hundred_cases_of_all_families(tmp_path: Path) -> None:
    finished = finish_project(tmp_path / "finished")
    measure_kits(finished)
    cases = list(draw_cases(SLOW_CASES, 2))
    assert {case.family for case in cases} == set(FAMILIES)
    assert not faults_in(cases, finished, tmp_path)


@pytest.mark.slow
def test_killed_in_all_stages(tmp_path: Path) -> None:
    finished, server = finish_project(tmp_path / "finished", prepare_kills), fork_server()
    found = {f"{stage} at {at}": kill(stage, at, finished, server) for stage, at in draw_kills(KILLS, finished, server)}
    assert len(found) == KILLS and not any(found.values()), {name: one for name, one in found.items() if one}
