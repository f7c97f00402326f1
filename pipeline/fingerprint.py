"""What a latency figure depends on besides the network: the machine, the runtime and how it is set up.

Needs only Python, so that a timing kit can carry it to a machine without torch.
"""

import hashlib
import os
import platform
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.errors import UserError


@dataclass(frozen=True)
class Fingerprint:
    """A device as latency tables know it; two figures are comparable when all of it is equal."""

    device: str
    processor: str
    flags_hash: str
    cores: int
    threads: int
    runtime: str
    runtime_version: str
    provider: str
    batch: int

    @property
    def slug(self) -> str:
        """A short name for files: kind, processor, threads, batch, runtime."""
        text = f"{self.device}-{self.processor}-{self.flags_hash[:4]}-t{self.threads}-b{self.batch}-{self.runtime}"
        return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

    def record(self) -> dict[str, Any]:
        return asdict(self)


def fingerprint_from_record(record: Any, origin: str) -> Fingerprint:
    """The fingerprint in parsed JSON; anything else is refused with one sentence that names `origin`."""
    expected = {field.name: field.type for field in fields(Fingerprint)}
    if not isinstance(record, dict) or set(record) != set(expected):
        raise UserError(f"{origin} has no valid device fingerprint: expected {', '.join(expected)}")
    for name, kind in expected.items():
        if type(record[name]) is not kind:
            raise UserError(f"{origin}: the fingerprint's {name} is {record[name]!r}")
    return Fingerprint(**record)


def describe_differences(table: Fingerprint, here: Fingerprint) -> list[str]:
    """What differs, as 'threads: 1 in the table, 2 here'."""
    theirs, ours = table.record(), here.record()
    return [f"{name}: {theirs[name]} in the table, {ours[name]} here" for name in theirs if theirs[name] != ours[name]]


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name() -> str:
    """The processor as the system names it."""
    for key in ("model name", "Model", "Hardware"):
        value = _cpu_field(key)
        if value:
            return value
    return platform.processor() or platform.machine()


def processor_flags_hash() -> str:
    """A short hash of the instruction sets; kernels are chosen by them."""
    flags = _cpu_field("flags") or _cpu_field("Features") or platform.machine()
    return hashlib.sha256(" ".join(sorted(flags.split())).encode()).hexdigest()[:12]


def _cpu_field(key: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(rf"^{re.escape(key)}\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""
