"""`python -m tests.campaign --cases 2000 --seed N`: every family in its turn, and the counts."""

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaign.families import FAMILIES, draw_cases
from tests.campaign.kills import draw_kills, kill, prepare_kills
from tests.campaign.kits import KITS, measure_kits
from tests.campaign.player import fork_server, play
from tests.campaign.project import finish_project


def main() -> int:
    parser = argparse.ArgumentParser(description="Bad inputs and faults, against one oracle.")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--only", choices=sorted(FAMILIES), help="one family")
    parser.add_argument("--verbose", action="store_true", help="a line per case")
    parser.add_argument("--project", type=Path, help="a finished project, to save making one")
    parser.add_argument("--kills", type=int, default=0, help="instead: so many kills over all stages")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if chosen.kills:
            return _kill_all(chosen.kills, Path(place))
        finished = chosen.project or finish_project(Path(place) / "finished")
        if not (finished / KITS).exists():
            measure_kits(finished)
        return _play_all(chosen, finished, Path(place))


def _play_all(chosen: argparse.Namespace, finished: Path, place: Path) -> int:
    server, counts, faults, cpu_s = fork_server(), Counter[str](), Counter[str](), 0.0
    cases = list(draw_cases(chosen.cases, chosen.seed, chosen.only))
    with ThreadPoolExecutor(chosen.jobs) as pool:  # the threads wait; the work is done in processes
        played = pool.map(lambda case: play(case, finished, server, place), cases)
        for number, (case, (ending, found)) in enumerate(zip(cases, played, strict=True)):
            cpu_s += ending.cpu_s
            counts[f"{case.family}, exit {ending.code}"] += 1
            faults.update(found)
            if found or chosen.verbose:
                last = (ending.stderr.strip().splitlines() or [""])[-1][:300]
                _print(f"{number} {ending.cpu_s:.1f}s {case}\n    -> {ending.code} {', '.join(found) or 'ok'} | {last}")
    for name in sorted(counts):
        _print(f"{counts[name]:6} {name}")
    _print(f"{sum(counts.values())} cases of seed {chosen.seed}, {cpu_s:.0f} CPU s; {sum(faults.values())} faults")
    for name, count in faults.most_common():
        _print(f"{count:6} {name}")
    return 1 if faults else 0


def _kill_all(count: int, place: Path) -> int:
    server, faults = fork_server(), 0
    finished = finish_project(place / "finished", prepare_kills)
    counts = Counter[str]()
    for stage, at in draw_kills(count, finished, server):
        found = kill(stage, at, finished, server)
        counts[stage] += 1
        faults += bool(found)
        if found:
            _print(f"{stage}, killed at touch {at}: {'; '.join(found)}")
    _print(
        f"{sum(counts.values())} kills ({', '.join(f'{n} in {name}' for name, n in counts.items())}); {faults} faults"
    )
    return 1 if faults else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
