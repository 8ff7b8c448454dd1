"""PyFlink's connector for topics that move between Kafka clusters: not supported."""

from typing import TYPE_CHECKING

from flinkish.common.absent import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
