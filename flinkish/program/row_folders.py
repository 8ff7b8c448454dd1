"""Where rows of DataFrames wait in files: with the checkpoints that name them, else for as long as the process runs."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import UnsupportedError
from flinkish.common.paths import location


def row_folder(configuration: Configuration, job_id: str) -> Path:
    """Return the folder of a job's rows; the same on the driver and in the tasks. It need not be there.

    Raises UnsupportedError for checkpoints in a place that is not mounted as a folder.
    """
    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    if directory is None:
        temporary = configuration.get(options.TMP_DIRS) or tempfile.gettempdir()
        return Path(temporary).absolute() / f"flinkish-rows-{os.getuid()}-{job_id}"
    place = location(directory)
    if not place.is_local:
        raise UnsupportedError(
            f"{options.CHECKPOINTS_DIRECTORY.key} is {directory}; rows of DataFrames need a mounted folder.",
            hint="use a folder that all machines have mounted for the checkpoints of this job.",
        )
    return Path(place.file).absolute() / job_id / "rows"


def remove_rows(configuration: Configuration, job_id: str) -> None:
    """Remove the rows of a job that no checkpoint names any more."""
    try:
        folder = row_folder(configuration, job_id)
    except UnsupportedError:
        return
    shutil.rmtree(folder, ignore_errors=True)
