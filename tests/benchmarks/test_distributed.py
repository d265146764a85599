"""What an item costs on workers of Dask and Ray: CPU of all processes, and memory of a worker.

Start-up is left out: a tenth of the items is subtracted. `make test-distributed` runs it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("psutil", reason="psutil is not installed: `make test-distributed` does that")

from tests.distributed.running import CHUNK_SIZE, ITEMS, Job, serving

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTES = 10
MILLISECONDS_PER_ITEM = 6.6
"""Two cores then answer 300 items a second, with the server on the same cores."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_items_cost_little_and_leave_nothing_in_the_worker(engine: str, tmp_path: Path) -> None:
    if not find_spec(engine):
        pytest.skip(f"{engine} is not installed: `make test-distributed` does that")
    few, many = (_measure(engine, tmp_path, items) for items in (ITEMS // 10, ITEMS))
    growth = many.megabytes - few.megabytes
    print(
        f"{engine}, {ITEMS} items: {many.items_per_second:.0f} a second on this machine; a worker "
        f"has {many.megabytes:.0f} MB, {growth:+.1f} MB against a tenth of the items"
    )
    assert growth <= MEGABYTES
    if engine == "dask":  # Ray's processes are not waited for, so their CPU is not known
        each = (many.cpu_seconds - few.cpu_seconds) / (ITEMS - ITEMS // 10) * 1000
        print(f"{engine}: {each:.2f} ms of CPU for each item")
        assert each <= MILLISECONDS_PER_ITEM


class _Measured:
    def __init__(self, job: Job, server_seconds: float) -> None:
        self.megabytes = max(job.peak_megabytes.values())
        self.cpu_seconds = job.cpu_seconds + server_seconds
        times = sorted(path.stat().st_mtime for path in job.folder.glob("answers/*.jsonl"))
        self.items_per_second = CHUNK_SIZE * (len(times) - 1) / (times[-1] - times[0])


def _measure(engine: str, folder: Path, items: int) -> _Measured:
    own_folder = folder / str(items)
    own_folder.mkdir()
    with serving() as server:
        job = Job(engine, own_folder, server.environment)
        job.write(items)
        job.run()
        return _Measured(job, server.cpu_seconds)
