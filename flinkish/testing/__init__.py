"""Tools for tests of programs.

`OneInputHarness` and `TwoInputHarness` run operators step by step, without an engine. `JobHarness` runs a whole job in virtual
time, on either engine. `flinkish.testing.strategies` generates streams for hypothesis, `flinkish.testing.tables` compares the
output of sinks with chispa, `flinkish.testing.pytest_plugin` has fixtures.

Names are loaded when they are first used, because pytest imports this package with the plugin even for tests that do not use it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flinkish.runtime.elements import EndOfInput as EndOfInput
    from flinkish.runtime.elements import Watermark as Watermark
    from flinkish.runtime.elements import WatermarkStatus as WatermarkStatus
    from flinkish.testing.collecting_sink import CollectingSink as CollectingSink
    from flinkish.testing.harness import OneInputHarness as OneInputHarness
    from flinkish.testing.harness import TwoInputHarness as TwoInputHarness
    from flinkish.testing.job import JobHarness as JobHarness
    from flinkish.testing.results import HarnessSnapshot as HarnessSnapshot
    from flinkish.testing.results import OutputElement as OutputElement
    from flinkish.testing.results import StateEntry as StateEntry
    from flinkish.testing.results import StreamRecord as StreamRecord
    from flinkish.testing.results import assert_records_equal as assert_records_equal
    from flinkish.testing.scripted_source import ScriptedFailure as ScriptedFailure
    from flinkish.testing.scripted_source import ScriptedSource as ScriptedSource
    from flinkish.testing.steps import CrashPoint as CrashPoint

_HOMES = {
    "flinkish.runtime.elements": ["EndOfInput", "Watermark", "WatermarkStatus"],
    "flinkish.testing.harness": ["OneInputHarness", "TwoInputHarness"],
    "flinkish.testing.collecting_sink": ["CollectingSink"],
    "flinkish.testing.job": ["JobHarness"],
    "flinkish.testing.results": ["HarnessSnapshot", "OutputElement", "StateEntry", "StreamRecord", "assert_records_equal"],
    "flinkish.testing.scripted_source": ["ScriptedFailure", "ScriptedSource"],
    "flinkish.testing.steps": ["CrashPoint"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from flinkish.common.absent import find_name

        return find_name(__name__, name, homes=_HOME_OF, caller=sys._getframe(1))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
