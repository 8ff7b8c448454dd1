"""Triggers, which decide when a window fires."""

from flinkish.udf.window.triggers import *  # noqa: F403
