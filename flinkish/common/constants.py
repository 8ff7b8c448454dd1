"""The least and the greatest time in milliseconds: watermarks before the first and after the last record, and no timestamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flinkish.common.absent import names_of
from flinkish.common.limits import LONG_MAX, LONG_MIN

__all__ = ["MAX_LONG_VALUE", "MIN_LONG_VALUE"]

#: The watermark behind the end of bounded input.
MAX_LONG_VALUE: Final = LONG_MAX
#: The watermark before there is one, and the timestamp of a record without.
MIN_LONG_VALUE: Final = LONG_MIN

if not TYPE_CHECKING:
    __getattr__ = names_of(__name__)
