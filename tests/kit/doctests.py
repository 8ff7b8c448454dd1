"""The names that the examples in docstrings of streams use without making them: `env`, and those of the public modules."""

import tempfile
from typing import Any

import pytest

from flinkish import common, datastream
from flinkish.common import Configuration, Encoder
from flinkish.datastream import StreamExecutionEnvironment, connectors
from flinkish.udf import state, window

_NAMES: dict[str, Any] = {
    name: getattr(module, name) for module in (connectors, state, window, common, datastream) for name in module.__all__
}


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    settings = Configuration()
    settings.set_string("execution.engine", "local")
    settings.set_string("parallelism.default", "1")
    environment = StreamExecutionEnvironment.get_execution_environment(settings)
    doctest_namespace.update(_NAMES, Encoder=Encoder, tempfile=tempfile, env=environment)
