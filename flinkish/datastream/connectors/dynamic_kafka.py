"""PyFlink's connector for topics that move between Kafka clusters: not supported."""

from flinkish.common.absent import add_getattr

add_getattr(__name__)
