"""A shell gets the properties of a driver on YARN as they are."""

from __future__ import annotations

import shlex
import subprocess

from flinkish.common.config_file import PROPERTIES_VARIABLE
from tests.unit.engine.spark.test_submission import settings_of


def test_yarn_gives_a_driver_the_very_text_of_a_property() -> None:
    value = """ 'a' "b" $HOME `date` \\ {{c}} {{{d}}} <CPS> {{"$e"}}"""
    line = shlex.join(["--master", "yarn", "--deploy-mode", "cluster", f"-Da={value}", "job.py"])
    given = settings_of(line)[f"spark.yarn.appMasterEnv.{PROPERTIES_VARIABLE}"]
    # As YARN does: ContainerLaunch.expandEnvironment, ShellScriptBuilder.env.
    expanded = given.replace("<CPS>", ":").replace("{{", "$").replace("}}", "")
    script = f'export PROPERTIES="{expanded}"\nprintf %s "$PROPERTIES"'
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert shlex.split(found) == [f"a={value}"]
