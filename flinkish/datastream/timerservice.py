"""Access to time and timers from within a keyed function."""

from flinkish.udf.timerservice import TimerService as TimerService
