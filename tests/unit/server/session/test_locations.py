"""What a record's process id says in another place: on other machines, in containers, after restarts, on clones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.server.session import processes
from flinkish.server.session.processes import Location, has_same_loopback, is_running, machine_of, this_location


def _place(**changes: str) -> str:
    return str(Location(**{"boot": "b1", "processes": "p1", "network": "n1", "machine": "m1", **changes}))


HERE = _place()


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (HERE, "looked up"),
        # Its own network does not hide a process.
        (_place(network="n2"), "looked up"),
        # The machine was renamed, or got another network card, while it ran.
        (_place(machine="m2"), "looked up"),
        # Another container of this machine, or the same one before it was started again.
        (_place(processes="p2"), None),
        # Before a restart of this machine, outside of containers and in one with its network.
        (_place(boot="b0"), False),
        (_place(boot="b0", processes="p2"), False),
        # Another machine; a container of it, in which nothing shows the machine; a clone of this one.
        (_place(boot="b0", machine="m2"), None),
        (_place(boot="b0", machine=""), None),
        # A damaged record.
        ("vm", None),
    ],
)
def test_a_process_is_looked_up_in_its_own_place_only(there: str, expected: bool | str | None) -> None:
    for running in (True, False):
        found = is_running(there, HERE, lambda: running)  # noqa: B023
        assert found is (running if expected == "looked up" else expected)


def test_two_containers_that_know_no_machine_are_not_taken_for_one_after_a_restart() -> None:
    assert is_running(_place(boot="b0", machine=""), _place(machine=""), lambda: True) is None


def test_reports_stay_where_127_0_0_1_is_the_same_host() -> None:
    assert has_same_loopback(_place(processes="p2", machine=""), HERE)
    assert not has_same_loopback(_place(network="n2"), HERE)
    assert not has_same_loopback(_place(boot="b0"), HERE)
    assert not has_same_loopback("vm", HERE)


def test_this_process_is_in_its_own_place() -> None:
    parsed = Location.parse(this_location())
    assert parsed.boot
    assert str(parsed) == this_location()
    if os.path.exists("/proc/self/ns/pid"):
        assert parsed.processes in os.readlink("/proc/self/ns/pid")


def _machine(root: Path, *, machine_id: str = "abc\n", card: str = "00:16:3e:00:00:01", virtual: bool = False) -> str:
    (root / "etc").mkdir(parents=True)
    (root / "etc/machine-id").write_text(machine_id)
    for name, address in (("eth0", card), ("lo", "00:00:00:00:00:00")):
        (root / "sys/class/net" / name).mkdir(parents=True)
        (root / "sys/class/net" / name / "address").write_text(f"{address}\n")
    if not virtual:
        (root / "sys/class/net/eth0/device").mkdir()
    return machine_of(root)


def test_a_machine_is_known_by_its_id_its_name_and_its_network_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _machine(tmp_path / "a")
    assert len(first) == 32
    assert _machine(tmp_path / "b") == first
    # A clone has the id and the name of its original, but another card.
    assert _machine(tmp_path / "c", card="00:16:3e:00:00:02") not in ("", first)
    assert _machine(tmp_path / "d", machine_id="def") not in ("", first)
    monkeypatch.setattr(processes.socket, "gethostname", lambda: "another name")
    assert _machine(tmp_path / "e") not in ("", first)


def test_a_machine_is_not_known_where_all_containers_look_alike(tmp_path: Path) -> None:
    assert _machine(tmp_path / "a", virtual=True) == ""
    assert _machine(tmp_path / "b", machine_id="\n") == ""
    assert _machine(tmp_path / "c", card="00:00:00:00:00:00") == ""
    assert machine_of(tmp_path / "nothing") == ""
