"""Windows, window assigners and triggers; programs import `datastream.window`."""

from flinkish.udf.window import assigners, triggers, windows
from flinkish.udf.window.assigners import *  # noqa: F403
from flinkish.udf.window.triggers import *  # noqa: F403
from flinkish.udf.window.windows import *  # noqa: F403

__all__ = [*assigners.__all__, *triggers.__all__, *windows.__all__]
