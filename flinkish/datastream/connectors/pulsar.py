"""PyFlink's Pulsar connector, which flinkish does not have, as it is Java code."""

from typing import TYPE_CHECKING

from flinkish.common.absent import names_of

if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
