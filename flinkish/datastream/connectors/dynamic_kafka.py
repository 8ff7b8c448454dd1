"""PyFlink's Kafka connector: not here yet."""

from flinkish.datastream.connectors._absent import absent

__getattr__ = absent(__name__, "Kafka comes together with Spark's native streaming sources, which are not in yet")
