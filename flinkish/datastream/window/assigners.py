"""Window assigners, which assign each record to windows."""

from flinkish.udf.window.assigners import *  # noqa: F403
