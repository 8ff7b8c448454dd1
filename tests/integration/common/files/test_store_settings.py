"""Stores of Google and Azure get the conditions under which objects and log entries are created."""

from __future__ import annotations

import pytest

from flinkish.checkpoint import paths
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.common.files.schemes import files_at
from tests.kit import fake_clouds
from tests.kit.fake_clouds import Cloud

pytestmark = pytest.mark.usefixtures("no_store_settings")


@pytest.mark.parametrize("root", ["gs://bucket", "abfss://data@mine.dfs.core.windows.net"])
def test_objects_and_log_entries_are_created_under_a_condition(root: str, clouds: Cloud) -> None:
    place = paths.table_root(f"{root}/conditions", key="execution.checkpointing.dir")
    files = files_at(place)
    files.make_root(sync=True)
    begin = len(clouds.requests)
    with files.create("part") as file:
        file.write(b"content")
    DeltaLog.create(place, {}, {}, time=1)
    created = [asked for method, path, asked in clouds.requests[begin:] if method == "PUT"]
    names = {"gs": ("x-goog-if-generation-match", "x-goog-if-generation-match"), "abfss": ("if-none-match", "if-match")}
    first, later = names[place.parts[0].removesuffix(":")]
    assert created[0][first] in ("0", "*")  # only if it is absent
    assert created[1][later] not in ("0", "*")  # only if it is what this writer has made
    assert created[2][first] in ("0", "*")  # delta-rs
    assert fake_clouds.ACCOUNT_KEY not in str(created)
    files.remove_all()
