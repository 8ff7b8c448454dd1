"""Windows, window assigners and triggers.

A WindowAssigner assigns each record to windows, and a Trigger decides when a window fires, that is, when its contents are passed
to the window function. Times are milliseconds; sizes are given as `Time` or timedelta.
"""

from flinkish.udf.window import assigners, triggers, windows
from flinkish.udf.window.assigners import *  # noqa: F403
from flinkish.udf.window.triggers import *  # noqa: F403
from flinkish.udf.window.windows import *  # noqa: F403

__all__ = [*assigners.__all__, *triggers.__all__, *windows.__all__]
