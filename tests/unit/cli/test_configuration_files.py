from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from flinkish.common import options
from flinkish.common.config_file import load_configuration

ROOT = Path(__file__).parents[3]


def test_the_configuration_file_holds_nothing_but_defaults() -> None:
    configuration = load_configuration(environment={"FLINKISH_CONF_DIR": str(ROOT / "conf")})
    assert configuration.key_set()
    for key in configuration.key_set():
        option = options.OPTIONS_BY_ANY_KEY[key]
        assert configuration.get(option) == option.default, key


def test_the_examples_of_the_configuration_file_are_valid(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = (ROOT / "conf" / "config.yaml").read_text()
    with_examples = re.sub(r"^( *)# ([\w.-]+: \S)", r"\1\2", text, flags=re.MULTILINE)
    (tmp_path / "config.yaml").write_text(with_examples)
    with caplog.at_level(logging.WARNING):
        configuration = load_configuration(environment={"FLINKISH_CONF_DIR": str(tmp_path)})
    assert not caplog.records
    assert configuration.get(options.CHECKPOINTING_INTERVAL) == 10_000
    assert configuration.get(options.HA_CLUSTER_ID) == "flight-delays"
    assert configuration.get(options.GLOBAL_JOB_PARAMETERS) == {"region": "north"}


def test_the_versions_that_the_makefile_and_the_page_on_clusters_name_are_those_of_setup_cfg() -> None:
    pins = dict(re.findall(r"^    (pyspark|delta-spark)==([\d.]+)$", (ROOT / "setup.cfg").read_text(), flags=re.MULTILINE))
    minor = ".".join(pins["pyspark"].split(".")[:2])
    artifact = f"io.delta:delta-spark_{minor}_2.13:{pins['delta-spark']}"
    assert f"DELTA := {artifact}\n" in (ROOT / "Makefile").read_text()
    assert f"--packages {artifact} " in (ROOT / "docs/pages/cluster.md").read_text()
