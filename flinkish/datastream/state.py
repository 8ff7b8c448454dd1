"""State of keyed functions: descriptors, handles and time-to-live."""

from flinkish.udf.state import *  # noqa: F403
