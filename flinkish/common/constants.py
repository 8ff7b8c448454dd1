"""The smallest and the largest time in milliseconds; they stand for the first and the last watermark and for no timestamp."""

from __future__ import annotations

from typing import Final

from flinkish.common.absent import add_getattr
from flinkish.common.limits import LONG_MAX, LONG_MIN

#: The watermark after the end of bounded input.
MAX_LONG_VALUE: Final = LONG_MAX
#: The watermark before the first one, and the timestamp of a record that has none.
MIN_LONG_VALUE: Final = LONG_MIN

add_getattr(__name__)
