"""Windows, window assigners and triggers.

A WindowAssigner assigns each record to windows, and a Trigger decides when a window fires, that is, when its contents are passed
to the window function. Times are milliseconds; sizes are given as `Time` or timedelta.
"""

from flinkish.common.absent import add_getattr as _add_getattr
from flinkish.udf.window.assigners import *  # noqa: F403
from flinkish.udf.window.triggers import *  # noqa: F403
from flinkish.udf.window.windows import *  # noqa: F403

_add_getattr(__name__)
