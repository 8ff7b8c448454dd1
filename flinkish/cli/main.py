"""The group of all commands, and the commands that run, explain, submit or pack programs in this process."""

from __future__ import annotations

import logging
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from flinkish.cli import cluster_commands, history_command, job_commands, state_commands
from flinkish.cli.connection import INTERRUPTED, begin_log, connect, errors_printed, say, with_properties
from flinkish.cli.packaging import pack_environment
from flinkish.cli.script import Explained, ExplainingExecutor, error_text, remind, run_script
from flinkish.common import notices
from flinkish.common import options as job_options
from flinkish.common.config_file import PROPERTIES_VARIABLE, parse_properties
from flinkish.common.engines import ENGINES
from flinkish.common.errors import FlinkishError
from flinkish.engine.spark.package import pack
from flinkish.program import executor_loader
from flinkish.program.forgotten import forgotten_programs
from flinkish.program.program import Program

#: A property, which may stand anywhere before `--`; the form of its key distinguishes it from the script's own -D arguments.
_PROPERTY = re.compile(r"-D[A-Za-z][\w.-]*=")


#: Keys of Spark.
_MASTER, _ARCHIVES = "spark.master", "spark.archives"


class _Parallelism(click.IntRange):
    """A positive whole number; errors name it so, not as a range."""

    name = "whole number"


_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _short(key: str, *names: str, more: str = "", **how: Any) -> _Decorator:
    """Return an option that is short for a property of this key; its value is kept for `_given_short`."""

    def keep(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            text = "true" if value is True else ";".join(value) if isinstance(value, tuple) else str(value)
            context.ensure_object(dict)[key] = text

    hint = "true" if how.get("is_flag") else "..."
    return click.option(*names, expose_value=False, callback=keep, **{"help": f"Short for -D{key}={hint}{more}", **how})


def _given_short() -> dict[str, str]:
    """Return the values of the command's short options, by key. As in Flink, an option wins over the property of its key."""
    return click.get_current_context().ensure_object(dict)


def _files(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(file for each in given for file in each.split(",") if file)


def _job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all commands have in common that run a script."""
    decorators: Sequence[_Decorator] = (
        with_properties,
        click.option(
            "-pyfs",
            "--pyFiles",
            "--py-files",
            "python_files",
            multiple=True,
            callback=_files,
            metavar="FILES",
            help="Python files, folders and zip files that the script imports, separated by commas.",
        ),
        _short("execution.engine", "--engine", type=click.Choice(list(ENGINES))),
        _short(job_options.DEFAULT_PARALLELISM.key, "-p", "--parallelism", type=_Parallelism(min=1), metavar="N"),
        _short(job_options.SAVEPOINT_PATH.key, "-s", "--fromSavepoint", metavar="PATH"),
        _short(job_options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key, "-n", "--allowNonRestoredState", is_flag=True),
        _short(job_options.FULL_TRACEBACK.key, "--traceback", is_flag=True, help="Include flinkish's own frames in errors."),
        click.option("-v", "--verbose", is_flag=True, help="Log at level INFO."),
        click.argument("job", type=click.Path(path_type=Path, dir_okay=False, exists=True)),
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run programs written with Flink's DataStream API on Spark Structured Streaming."""


#: As in Flink, options before the script are flinkish's, and options after it are the script's.
_AS_FLINK = {"allow_interspersed_args": False}


@cli.command(context_settings=_AS_FLINK)
@click.option(
    "-m", "--jobmanager", metavar="HOST:PORT", help="Run the script on this session cluster instead of in this process."
)
@click.option("-d", "--detached", is_flag=True, help="With -m: print the id of the job and do not wait for its end.")
@click.option("-sae", "--shutdownOnAttachedExit", "cancel_on_exit", is_flag=True, help="With -m: Ctrl-C cancels the job.")
@_short(job_options.CLASSPATHS.key, "-C", "--classpath", multiple=True, metavar="URL")
@_short(_MASTER, "--master", metavar="URL", more=", such as spark://host:7077")
@_short(
    _ARCHIVES,
    "--archives",
    metavar="FILES",
    more=", which Spark unpacks for each executor: environment.tar.gz#environment",
)
@_job_options
def run(job: Path, jobmanager: str | None, detached: bool, cancel_on_exit: bool, **options: Any) -> None:
    """Run the script JOB with its ARGUMENTS.

    \b
    flinkish run job.py --input DIR                            in this process
    flinkish run -s /savepoints/savepoint-1b2c3d -p 4 job.py   from a savepoint, at another parallelism
    flinkish run -m host:8081 -d --py-files lib.zip job.py     on a session cluster
    flinkish run --master spark://host:7077 job.py             in this process, with tasks on a cluster of Spark

    The exit code is 1 if the script or its job fails, or if it builds a program and does not execute it.

    -Dkey=value may also follow JOB. Arguments after `--` are always passed to the script.
    """
    short = _given_short()
    if jobmanager is not None:
        if _MASTER in short or _ARCHIVES in short:
            raise click.UsageError(
                "--master and --archives are for a job of this process; with -m, the session cluster starts the job: set "
                f"{job_options.DRIVER_LAUNCHER.key} and {job_options.DRIVER_SUBMIT_OPTIONS.key} there."
            )
        sys.exit(_run_on_cluster(job, jobmanager, detached, cancel_on_exit, **options))
    if detached or cancel_on_exit:
        raise click.UsageError("-d and -sae need -m HOST:PORT: without it, the job runs in this process and ends with it.")
    sys.exit(_run(job, **options))


@cli.command(context_settings=_AS_FLINK)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for Flink's plan visualizer.")
@_job_options
def explain(job: Path, as_json: bool, **options: Any) -> None:
    """Show the first job of the script JOB instead of running it.

    Prints the stream graph, job graph and execution plan as trees, then the engine's plan. The script runs up to its execute().
    """
    usual = executor_loader.load_executor()
    describe = usual.execution_plan_json if as_json else usual.explain
    sys.exit(_show_first_job(job, lambda program: click.echo(describe(program)), **options))


@cli.command(context_settings=_AS_FLINK)
@_job_options
def info(job: Path, **options: Any) -> None:
    """Print the plan of the first job of the script JOB as JSON, as Flink's info does; `flinkish explain` shows more.

    Flink's plan visualizer draws it: https://nightlies.apache.org/flink/flink-docs-stable/visualizer/
    """
    plan = executor_loader.load_executor().execution_plan_json
    lines = " Execution Plan ".center(62, "-"), "-" * 62
    sys.exit(_show_first_job(job, lambda program: click.echo(f"{lines[0]}\n{plan(program)}\n{lines[1]}"), **options))


@cli.command("plan", context_settings=_AS_FLINK)
@click.option("--against", metavar="PATH", help="The savepoint or checkpoint to compare with; may also follow JOB.")
@click.option("--no-open", is_flag=True, help="Do not open functions; their states are then not compared.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_job_options
def plan_upgrade(
    job: Path, against: str | None, no_open: bool, as_json: bool, arguments: tuple[str, ...], **options: Any
) -> None:
    """Show what the first job of the script JOB would take over from a savepoint, without starting it.

    \b
    flinkish plan JOB --against /savepoints/savepoint-1b2c3d-0123456789ab
    flinkish plan -n JOB --against /checkpoints/1b2c3d4e5f60718293a4b5c6d7e8f901   with -n, as flinkish run -n would start it

    The script runs up to its execute(). The functions of its operators are opened and closed in this process, because they
    declare their states there; sources and sinks are not opened. The exit code is 1 if the start would be refused.
    """
    from flinkish.cli.upgrade import show_upgrade

    own = list(arguments)
    if "--against" in own[:-1] and against is None:
        position = own.index("--against")
        against = own[position + 1]
        del own[position : position + 2]
    if against is None:
        raise click.UsageError("--against PATH is missing: the savepoint to compare the program with.")
    refused: list[bool] = []

    def show(program: Program) -> None:
        refused.append(show_upgrade(program, against, open_functions=not no_open, as_json=as_json))

    code = _show_first_job(job, show, arguments=own, **options)
    sys.exit(code or int(any(refused)))


@cli.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS OF SPARK-SUBMIT]",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="JOB [ARGUMENTS]...")
def submit(arguments: tuple[str, ...]) -> None:
    """Run the script JOB with spark-submit, and provide flinkish and Delta to it.

    Options before JOB are those of spark-submit, such as `--master yarn`, and of flinkish: -Dkey=value, -p N (parallelism),
    -s PATH (start from a savepoint), -n (drop state for which the program has no operator).
    """
    from flinkish.cli.submit import submit as run_submit

    with errors_printed():
        sys.exit(run_submit(arguments))


@cli.command()
@click.option("-D", "properties", multiple=True, metavar="spark.KEY=VALUE", help="Set a configuration key of Spark.")
@click.option("-n", "--rows", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum rows shown per result.")
@click.option("--state", "states", multiple=True, metavar="VIEW=PATH", help="A view of the rows of a checkpoint or savepoint.")
@click.argument("statements", nargs=-1, metavar="[STATEMENT]...")
def sql(statements: tuple[str, ...], properties: tuple[str, ...], rows: int, states: tuple[str, ...]) -> None:
    """Run SQL in a Spark session that reads and writes Delta tables.

    It reads tables of sinks: flinkish sql "SELECT * FROM delta.`/path/of/the/table`", and state of checkpoints and savepoints:
    flinkish sql --state s=/path/of/the/savepoint "SELECT * FROM s". Without a STATEMENT argument, statements are read from
    standard input. Several statements are separated by `;`; the first that fails ends the run.
    """
    from flinkish.cli.sql import run_statements

    with errors_printed(), notices.told_always():
        run_statements(statements, properties, rows, states)


@cli.command()
@click.option("--environment", is_flag=True, help="Pack this Python's virtual environment instead, for --archives.")
@click.argument("target", required=False, type=click.Path(path_type=Path, dir_okay=False))
def package(target: Path | None, environment: bool) -> None:
    """Pack flinkish into the zip file TARGET, for `spark-submit --py-files`.

    TARGET is flinkish.zip if not given. With --environment, the virtual environment of this command is packed, for the
    `--archives` of `flinkish submit`; TARGET is environment.tar.gz if not given.

    \b
    flinkish package --environment
    PYSPARK_PYTHON=./environment/bin/python flinkish submit --archives environment.tar.gz#environment ... job.py
    """
    try:
        if environment:
            target = target or Path("environment.tar.gz")
            python = pack_environment(target)
            click.echo(f"Packed {sys.prefix} into {target}; all machines need {python}")
            return
        target = target or Path("flinkish.zip")
        pack(target)
    except (FlinkishError, OSError) as error:
        say(f"{type(error).__name__}: {error}")
        sys.exit(1)
    click.echo(f"Packed flinkish into {target}")


@cli.command()
def version() -> None:
    """Print the versions of flinkish, Python and the packages that flinkish runs on."""
    parts = [f"{package} {_version(package)}" for package in ("pyspark", "delta-spark", "deltalake", "pyarrow")]
    click.echo(f"flinkish {_version('flinkish')} (Python {platform.python_version()}, {', '.join(parts)})")


for command in (
    job_commands.list_jobs,
    job_commands.logs,
    job_commands.cancel,
    job_commands.stop,
    job_commands.savepoint,
    job_commands.checkpoint,
    history_command.history,
    cluster_commands.cluster,
    state_commands.state,
):
    cli.add_command(command)


def main() -> None:
    """Start the command line; Ctrl-C ends each command with the exit code that shells use for it."""
    try:
        code = cli.main(prog_name="flinkish", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(INTERRUPTED)
    sys.exit(code)


def _show_first_job(job: Path, show: Callable[[Program], None], **options: Any) -> int:
    """Run a script up to its first job, whose program is passed to `show`; return the exit code."""
    before = executor_loader.replace_executor(ExplainingExecutor(executor_loader.load_executor(), show))
    try:
        code = _run(job, **options)
    except Explained:
        return 0
    finally:
        executor_loader.replace_executor(before)
    if code == 0:
        say(f"{job} executed no job: there is nothing to explain.\nHint: it must call execute() when it is run as a script.")
    return code or 1


def _run_on_cluster(
    job: Path,
    jobmanager: str,
    detached: bool,
    cancel_on_exit: bool,
    *,
    python_files: tuple[str, ...],
    properties: tuple[str, ...],
    verbose: bool,
    arguments: Sequence[str],
) -> int:
    """Run a script on a session cluster; return the exit code."""
    from flinkish.cli.remote import follow, packed, submit

    with errors_printed(logging.INFO if verbose else logging.WARNING):
        of_script, behind = split_arguments(arguments)
        settings = {key: str(value) for key, value in parse_properties([*properties, *behind]).to_dict().items()}
        client = connect(jobmanager, [*properties, *behind])
        with packed(job, python_files) as program:
            job_id = submit(client, program, of_script, settings, _given_short())
        click.echo(f"Job has been submitted with JobID {job_id}")
        return 0 if detached else follow(client, job_id, cancel_on_interrupt=cancel_on_exit)
    raise AssertionError


@notices.told_always()
def _run(job: Path, *, python_files: tuple[str, ...], properties: Sequence[str], verbose: bool, arguments: Sequence[str]) -> int:
    """Run a script with properties; return the exit code."""
    level = logging.INFO if verbose else logging.WARNING
    begin_log(level)
    of_script, behind = split_arguments(arguments)
    short = _given_short()
    if python_files:
        from flinkish.engine.dependencies import extend_script_path

        short[job_options.PYTHON_FILES.key] = ",".join(python_files)
        with errors_printed(level):
            extend_script_path(python_files)
    forgotten_programs()
    try:
        given = [*properties, *behind, *(f"{key}={value}" for key, value in short.items())]
        if given:
            parse_properties(given)  # report a bad property here, not somewhere in the script
            # For the environments that the script will create, and for processes that it starts.
            before = shlex.split(os.environ.get(PROPERTIES_VARIABLE, ""))
            os.environ[PROPERTIES_VARIABLE] = shlex.join([*before, *given])
        run_script(job, of_script)
        return remind(str(job), say)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        return remind(str(job), say)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        say(error_text(error, job, with_traceback=job_options.FULL_TRACEBACK.key in short))
        return 1
    finally:
        forgotten_programs()


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split into the script's own arguments and the properties found among them before `--`; the `--` is removed."""
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    properties = [given for given in arguments[:end] if _PROPERTY.match(given)]
    own = [given for given in arguments[:end] if not _PROPERTY.match(given)]
    return own + list(arguments[end + 1 :]), properties


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
