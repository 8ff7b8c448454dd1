"""The interfaces of sources and sinks, in PyFlink's module; the layers below the API import them from `flinkish.program`."""

from flinkish.program.sinks import *  # noqa: F403
from flinkish.program.sources import *  # noqa: F403
