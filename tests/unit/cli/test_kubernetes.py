"""The template of conf/kubernetes: valid for Kubernetes, and its parts fit together and the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from flinkish.cli.main import cli
from flinkish.common import options
from flinkish.common.config_file import load_configuration
from flinkish.common.errors import FlinkishError
from flinkish.engine.spark.submission import parse_command_line
from flinkish.server.rest.trust import OPEN_PATHS
from flinkish.server.server_settings import server_settings

_FOLDER = Path(__file__).resolve().parents[3] / "conf" / "kubernetes"
_TEMPLATE = _FOLDER / "flinkish.yaml"
_VERSIONS = ("1.30", kubernetes_validate.latest_version())


def _resources() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(_TEMPLATE.read_text(encoding="utf-8")))


def _only(kind: str, name: str = "flight-delays") -> dict[str, Any]:
    (found,) = [each for each in _resources() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


@pytest.fixture
def pod() -> dict[str, Any]:
    """The driver's pod."""
    spec: dict[str, Any] = _only("Deployment")["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def driver(pod: dict[str, Any]) -> dict[str, Any]:
    """The driver's container."""
    (container,) = pod["containers"]
    return dict(container)


@pytest.fixture
def configuration(tmp_path: Path) -> Any:
    """The configuration of the job."""
    (tmp_path / "config.yaml").write_text(_only("ConfigMap")["data"]["config.yaml"])
    return load_configuration((), environment={"FLINKISH_CONF_DIR": str(tmp_path)})


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("resource", _resources(), ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
def test_each_resource_is_valid(resource: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(resource, version, strict=True)


def test_a_resource_with_a_wrong_field_would_be_found() -> None:
    wrong = _only("Deployment")
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessProbes"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, _VERSIONS[-1], strict=True)


def test_the_driver_is_started_by_a_command_that_flinkish_has(driver: dict[str, Any], configuration: Any) -> None:
    flinkish, verb = driver["command"]
    assert flinkish == "flinkish"
    assert verb in cli.commands
    line = parse_command_line(driver["args"])
    assert line.job == "/opt/jobs/flight_delays.py"
    conf = dict(entry.split("=", 1) for entry in line.values("--conf"))
    ports = {port["name"]: port["containerPort"] for port in driver["ports"]}
    assert (conf["spark.driver.port"], conf["spark.driver.blockManager.port"]) == (str(ports["driver"]), str(ports["blocks"]))
    assert {port["name"]: port["port"] for port in _only("Service", "flight-delays-driver")["spec"]["ports"]} == {
        name: port for name, port in ports.items() if name != "rest"
    }
    assert conf["spark.driver.host"] == "flight-delays-driver.$(NAMESPACE).svc"
    (init,) = _only("Deployment")["spec"]["template"]["spec"]["initContainers"]
    assert driver["image"] == conf["spark.kubernetes.container.image"] == init["image"]
    slots = int(conf["spark.executor.instances"]) * int(conf["spark.executor.cores"])
    assert slots == configuration.get(options.DEFAULT_PARALLELISM)
    # Variables in arguments are those of the container.
    names = {entry["name"] for entry in driver["env"]}
    assert set(re.findall(r"\$\((\w+)\)", " ".join(driver["args"]))) <= names


def test_the_server_answers_where_probes_and_services_look(driver: dict[str, Any], configuration: Any) -> None:
    (rest,) = _only("Service")["spec"]["ports"]
    assert rest["targetPort"] == "rest"
    ports = {port["name"]: port["containerPort"] for port in driver["ports"]}
    assert configuration.get(options.REST_PORT) == rest["port"] == ports["rest"]
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert driver[kind]["httpGet"]["port"] == "rest"
        assert driver[kind]["httpGet"]["path"] in OPEN_PATHS
    labels = _only("Deployment")["spec"]["template"]["metadata"]["labels"]
    for service in ("flight-delays", "flight-delays-driver"):
        assert _only("Service", service)["spec"]["selector"].items() <= labels.items()


def test_secrets_are_there_and_the_placeholder_of_the_token_is_refused(
    driver: dict[str, Any], pod: dict[str, Any], configuration: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = _only("Secret")["stringData"]
    used = {entry["valueFrom"]["secretKeyRef"]["key"] for entry in driver["env"] if "secretKeyRef" in entry.get("valueFrom", {})}
    used |= set(re.findall(r"secretKeyRef\.\w+=flight-delays:([\w-]+)", " ".join(driver["args"])))
    (volume,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    used |= {item["key"] for item in volume["items"]}
    assert used == set(secrets)
    # The copy of the key is where the configuration looks for it.
    (init,) = pod["initContainers"]
    assert init["command"][-1] == configuration.get(options.CHECKPOINT_HMAC_KEY_FILE)
    monkeypatch.setenv("FLINKISH_REST_TOKEN", secrets["rest-token"])
    with pytest.raises(FlinkishError, match="shorter than 16"):
        server_settings(configuration)


def test_volumes_are_those_that_are_mounted(pod: dict[str, Any]) -> None:
    containers = [*pod["containers"], *pod["initContainers"]]
    assert {mount["name"] for container in containers for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }


def test_the_image_has_the_version_of_spark_that_flinkish_needs() -> None:
    setup = (_FOLDER.parents[1] / "setup.cfg").read_text()
    (version,) = re.findall(r"pyspark==(\S+)", setup)
    assert f"FROM apache/spark:{version} AS spark" in (_FOLDER / "Dockerfile").read_text()
