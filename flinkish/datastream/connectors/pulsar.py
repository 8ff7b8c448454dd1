"""PyFlink's Pulsar connector, which is a Java one: not here."""

from flinkish.datastream.connectors._absent import absent

__getattr__ = absent(__name__, "it configures Flink's Pulsar connector, which is Java code")
