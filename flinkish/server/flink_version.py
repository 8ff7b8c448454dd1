"""The version in the server's answers: the version of Flink's REST API, with flinkish's own in the place of the commit."""

from __future__ import annotations

import flinkish

#: Clients choose what they may ask for by this version.
FLINK_VERSION = "2.3.0"
FLINK_COMMIT = f"flinkish-{flinkish.__version__}"
