"""Windows, and their serializers."""

from flinkish.udf.window.windows import *  # noqa: F403
