"""The page of metrics holds every metric of the code, and every setting of every reporter."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs.metrics_page import SCOPES, markdown
from flinkish.metrics.catalog import CATALOG, Kind, Scope, find
from flinkish.metrics.reporters.reporter_settings import COMMON, OWN

DASHBOARD = Path(__file__).parents[3] / "conf" / "grafana" / "flinkish.json"
_PREFIXES = sorted(Scope, key=lambda scope: -len(scope.value))


def test_every_metric_is_in_the_section_of_its_scope() -> None:
    page = markdown()
    sections = {scope: page.split(f"## {title}\n")[1].split("\n## ")[0] for scope, (title, _) in SCOPES.items()}
    assert sections.keys() == set(Scope)
    assert [name for scope, name in CATALOG if sections[scope].count(f"\n| `{name}` |") != 1] == []
    assert all(info.description.endswith(".") for info in CATALOG.values())


def test_every_setting_of_a_reporter_is_on_the_page() -> None:
    page = markdown()
    for kind, settings in OWN.items():
        section = page.split(f"`factory.class: {kind.value}`")[1].split("\n### ")[0]
        assert [name for name in (*settings, *COMMON) if f"\n| `{name}` |" not in section] == []
        assert [text for *_, text in settings.values() if not text.endswith(".")] == []


def _expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_the_dashboard_shows_only_metrics_that_prometheus_gets() -> None:
    """The text of the reporter is made of the same catalog; test_reporting.py compares that with a scrape."""
    names = {name for expression in _expressions() for name in re.findall(r"flink_[a-zA-Z_]+", expression)}
    assert len(names) > 15
    for name in names:
        scope = next(scope for scope in _PREFIXES if name.startswith(f"flink_{scope.value}_"))
        info = find(scope, name.removeprefix(f"flink_{scope.value}_").removesuffix("_count"))
        assert info is not None, name
        assert not info.text
        assert not name.endswith("_count") or info.kind is Kind.HISTOGRAM


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["uid"] == "flinkish"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or all(target["refId"] and target["expr"] for target in panel["targets"])
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {"datasource", "job"}
