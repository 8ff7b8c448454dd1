"""Folders for scratch files."""

from __future__ import annotations

import pytest

from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.engine.scratch import temporary_folder


def test_scratch_files_are_refused_in_an_object_store() -> None:
    with pytest.raises(ConfigurationError, match=r"io\.tmp\.dirs = 's3://\*\*\*@bucket/x': scratch files .* not at s3"):
        temporary_folder(Configuration.from_dict({"io.tmp.dirs": "s3://me:hush@bucket/x"}))
    assert temporary_folder(Configuration.from_dict({"io.tmp.dirs": "/mnt/a"})) == "/mnt/a"
