"""TimeDomain: the kind of time of a timer."""

from flinkish.udf.time_domain import TimeDomain

__all__ = ["TimeDomain"]
