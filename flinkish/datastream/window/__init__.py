"""Windows, window assigners and triggers.

A WindowAssigner assigns each record to windows, and a Trigger decides when a window fires, that is, when its contents are passed
to the window function. Times are milliseconds; sizes are given as `Time` or timedelta.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from flinkish.common.absent import names_of as _names_of
from flinkish.udf.window import *  # noqa: F403

if not _TYPE_CHECKING:
    # Absent names of PyFlink; hidden from type checkers, which would accept any name otherwise.
    __getattr__ = _names_of(__name__)
