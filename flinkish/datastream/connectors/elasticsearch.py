"""PyFlink's Elasticsearch connector, which is a Java one: not here."""

from flinkish.datastream.connectors._absent import absent

__getattr__ = absent(__name__, "it configures Flink's Elasticsearch connector, which is Java code")
