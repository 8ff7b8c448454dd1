"""A driver process killed with SIGKILL while it takes its second checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.checkpoint import checkpoint_files
from tests.kit.child import python
from tests.unit.checkpoint.support import files_of, make_storage, named_by, take

_SCRIPT = """
import sys
from pathlib import Path
from tests.unit.checkpoint.support import make_storage, take
storage = make_storage(Path(sys.argv[1]))
storage.claim()
for number in (1, 2, 3):
    take(storage, number)
    storage.clean_up(())
"""


@pytest.mark.kill
@pytest.mark.parametrize(
    ("fault", "last"),
    [("P8:kill9:nth=2", 1), ("P9:kill9:nth=2", 1), ("P12:kill9:nth=2", 2), ("P14:kill9:nth=1", 2), ("P14:kill9:nth=2", 2)],
)
def test_the_successor_of_a_killed_driver_finds_the_last_committed_checkpoint(tmp_path: Path, fault: str, last: int) -> None:
    python("-c", _SCRIPT, tmp_path, status=-9, FLINKISH_FAULT=fault)
    storage = make_storage(tmp_path)
    assert storage.claim() == 2
    latest = storage.latest()
    assert latest is not None
    assert latest.checkpoint_id == last
    checkpoint_files.verify_files(latest)
    stored = take(storage, storage.last_id + 1)
    storage.clean_up(())
    assert files_of(storage.root) == named_by(stored)
