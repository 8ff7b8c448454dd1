"""Fixtures: slots in a folder of their own."""

from tests.unit.runtime.state.conftest import make_slot, slot

__all__ = ["make_slot", "slot"]
