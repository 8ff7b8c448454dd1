"""TimeDomain: the kind of time of a timer."""

from flinkish.udf.time_domain import TimeDomain as TimeDomain
