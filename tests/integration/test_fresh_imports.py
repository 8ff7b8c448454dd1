"""What a fresh process imports: heavy packages come only where they are needed."""

from __future__ import annotations

import pytest

from tests.kit.child import python

_SPARK = {"pyspark", "py4j", "pandas"}
_ARROW = {"pyspark", "pandas", "numpy", "pyarrow"}
_BUILDING = """
from flinkish.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).key_by(abs).sum().print()
"""


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        pytest.param("import flinkish.common, flinkish.metrics", _ARROW, id="the common names"),
        pytest.param(_BUILDING, _SPARK, id="the API, and building a job"),
        pytest.param("import flinkish.runtime.state.level_state", _ARROW, id="the state of a job without checkpoints"),
        pytest.param(
            "import flinkish.runtime.state.snapshot, flinkish.runtime.state.restore", {"deltalake"}, id="state in tasks"
        ),
    ],
)
def test_heavy_packages_are_not_imported(program: str, heavy: set[str]) -> None:
    shown = f"{program}\nimport sys; print(sorted({heavy} & set(sys.modules)))"
    result = python("-c", shown)
    assert result.stdout == "[]\n"
