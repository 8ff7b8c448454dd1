"""PyFlink's Cassandra connector, which flinkish does not have, as it is Java code."""

from flinkish.common.absent import add_getattr

add_getattr(__name__)
