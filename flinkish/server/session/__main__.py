"""Starts a Dispatcher in the foreground: `python -m flinkish.server.session [-Dkey=value ...]`.

Prints one line `Dispatcher: URL` on standard output when it answers. SIGTERM and Ctrl-C end it and leave the jobs to the next
Dispatcher; DELETE /cluster cancels them.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from flinkish.common import redaction
from flinkish.common.config_file import PROPERTIES_VARIABLE, load_configuration
from flinkish.common.errors import ConfigurationError, FlinkishError
from flinkish.common.files import store_settings
from flinkish.server.server_settings import TOKEN_VARIABLE
from flinkish.server.session.dispatcher_settings import session_settings
from flinkish.server.session.service import Service

_log = logging.getLogger("flinkish.server.session")


def main(arguments: Sequence[str]) -> int:
    """Run a Dispatcher until it is ended; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    redaction.protect_log()
    try:
        others = [given for given in arguments if not given.startswith("-D")]
        if others:
            raise ConfigurationError(f"unknown argument {others[0]!r}", hint="python -m flinkish.server.session -Dkey=value ...")
        # Drivers inherit the environment, and get the properties in addition: without the variable, none comes to them twice.
        before = shlex.split(os.environ.pop(PROPERTIES_VARIABLE, ""))
        properties = [*before, *(given.removeprefix("-D") for given in arguments)]
        configuration = load_configuration(properties, environment=os.environ)
        redaction.remember({**os.environ, **configuration.to_dict()})
        store_settings.use(configuration, alone=True)
        settings = session_settings(configuration, tuple(properties))
        service = Service(settings)
        address = service.start()
    except (FlinkishError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1

    def end(_number: int, _frame: FrameType | None) -> None:
        service.stop(False)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if settings.server.token is None and settings.submit_enabled:
        _log.warning(
            "The session needs no token, so each user of this machine can run programs in it as you. On a machine with other "
            "users, set the environment variable %s.",
            TOKEN_VARIABLE,
        )
    if settings.temporary:
        _log.warning(
            "The session is kept in %s, a folder for temporary files; set high-availability.storageDir to keep it elsewhere.",
            settings.root,
        )
    print(f"Dispatcher: {address}", flush=True)
    while not service.wait(0.5):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
