"""Nexmark: the auction house whose queries compare streaming engines; see `make nexmark`."""
