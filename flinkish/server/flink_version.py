"""What the server says about its version: that of Flink whose REST it speaks, and its own in the place of the commit."""

from __future__ import annotations

import flinkish

#: Clients choose what they may ask for by this version.
FLINK_VERSION = "2.3.0"
FLINK_COMMIT = f"flinkish-{flinkish.__version__}"
