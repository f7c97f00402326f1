"""Memory estimated before it is asked for: a sentence at once instead of a process that is killed later."""

import os
import resource
from pathlib import Path

from pipeline.errors import UserError

_GB = 1e9
_GROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def machine_bytes() -> int:
    """The memory that this process may come to: that of the machine, of its container, or what the shell allows."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY:
        limits.append(allowed)
    for path in _GROUP_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no container, or one without a limit ("max")
            continue
    return min(limits)


def require_memory(needed: float, purpose: str, advice: str) -> None:
    """Refuse what cannot fit; `needed` is a lower bound, so that what fits is never refused."""
    here = machine_bytes()
    if needed > here:
        raise UserError(f"{purpose} needs about {needed / _GB:,.0f} GB, {here / _GB:.0f} GB are here; lower {advice}")
