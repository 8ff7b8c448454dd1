"""Creates the folders for the Spark engine's scratch data.

With io.tmp.dirs, and on one machine, there is one folder that driver and executors access. Else the driver and each executor have
a folder of the same name in their working folder, which Spark creates for each executor and removes with the application. Spark's
state stores are there, too: /proc/self/cwd means the working folder of the process that uses the path. A slot that moves does not
find its state there, which fails the attempt, so the job restarts from its last checkpoint.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from flinkish.common.errors import EngineError
from flinkish.engine.scratch import make_folder, remove_orphans
from flinkish.engine.spark.jvm import java_class
from flinkish.engine.spark.spark_settings import is_one_machine
from flinkish.runtime.protocol import NO_DEPENDENCIES, TaskProgram

_PREFIX = "flinkish-scratch"
_OWN_PREFIX = ".flinkish"
#: Memory-backed storage; used only if it has at least this many free bytes (containers often have 64 MB there).
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_MEMORY_BYTES = 2 << 30
#: The working folder of the process that uses the path; Linux only.
_WORKING_FOLDER = Path("/proc/self/cwd")
#: Maximum length of the path of the folder for sockets: the address of one has at most 103 bytes, and Spark adds a name of 42.
_LONGEST_SOCKET_FOLDER = 60
#: Folder for sockets if the path of the folder for scratch data is too long, and the prefix of names there.
_SHORT, _SHORT_PREFIX = Path("/tmp"), "flinkish"
_SCHEME = "flinkish"
#: Janino compiles it, which Spark has for the code that it generates.
_FILE_SYSTEM = f"""
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

public class ScratchFileSystem extends org.apache.hadoop.fs.RawLocalFileSystem {{
    public java.net.URI getUri() {{ return java.net.URI.create("{_SCHEME}:///"); }}
    public void setPermission(Path path, FsPermission permission) {{}}
}}
"""


def make_scratch_folder(scratch_dir: Path | None) -> Path:
    """Create a folder with mode 0700, named after this process. Raises EngineError if that is not possible.

    It is in `scratch_dir`, else on memory-backed storage with enough space, else in the temporary folder. Folders of killed
    processes are removed, because memory-backed storage would fill up.
    """
    has_room = os.access(_SHARED_MEMORY, os.W_OK) and shutil.disk_usage(_SHARED_MEMORY).free >= _SHARED_MEMORY_BYTES
    parent = scratch_dir or (_SHARED_MEMORY if has_room else Path(tempfile.gettempdir()))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if scratch_dir is None:
            remove_orphans(parent, _PREFIX)
        return make_folder(parent, _PREFIX)
    except OSError as error:
        raise EngineError(f"No folder for scratch data can be made in {parent}: {error}", hint="set io.tmp.dirs.") from error


def url_in_jvm(context: SparkContext, folder: Path) -> str:
    """Return a URL with which a JVM, and the tasks in it, write to a folder without setting permissions.

    At a `file:` URL, Hadoop without its native library forks a `chmod` for each file and folder that it makes, which took a sixth
    of a short epoch. Scratch data does not need it, because the folder that everything is in is closed to other users.
    """
    _make_file_system(context)
    return f"{_SCHEME}://{folder}"


@functools.lru_cache(maxsize=1)
def _make_file_system(context: SparkContext) -> None:
    """Have Hadoop make the file system of _SCHEME. It keeps one for each scheme, so from then on nobody needs the class."""
    jvm: Any = context._jvm
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.cook(_FILE_SYSTEM)
    configuration = java_class(jvm, "org.apache.hadoop.conf.Configuration")(context._jsc.hadoopConfiguration())
    configuration.setClassLoader(compiler.getClassLoader())
    configuration.set(f"fs.{_SCHEME}.impl", "ScratchFileSystem")
    java_class(jvm, "org.apache.hadoop.fs.FileSystem").get(java_class(jvm, "java.net.URI")(f"{_SCHEME}:///"), configuration)


def uri_in_own(root: Path, folder: Path) -> str:
    """Return a URI of a folder below `root`, the driver's own folder; it is another folder for its JVM and each executor."""
    return (_WORKING_FOLDER / folder.relative_to(root.parent)).as_uri()


def check_cluster_settings(master: str, scratch_dir: Path | None, *, speculation: bool) -> None:
    """Refuse a cluster whose executors cannot reach the scratch folder nor have folders of their own, and speculative tasks.

    Raises EngineError.
    """
    if speculation:
        raise EngineError(
            "spark.speculation is true; a slot must run once at a time.",
            hint="set spark.speculation to false for this application.",
        )
    if not is_one_machine(master) and scratch_dir is None and not _WORKING_FOLDER.is_dir():
        raise EngineError(
            f"The master is {master}, but the scratch folder would be a local (file:) folder of the driver's machine; the "
            "executors must reach it too.",
            hint="set io.tmp.dirs to a folder on storage that is mounted under the same path everywhere (such as NFS).",
        )


def make_own_folder(working_folder: Path) -> Path:
    """Create the driver's folder in the working folder of its JVM. Raises EngineError if that is not possible."""
    try:
        remove_orphans(working_folder, _OWN_PREFIX)
        return make_folder(working_folder, _OWN_PREFIX)
    except OSError as error:
        raise EngineError(
            f"No folder for scratch data can be made in the driver's working folder, {working_folder}: {error}",
            hint="start the driver in a folder that it may write to, or set io.tmp.dirs to a folder that all machines mount.",
        ) from error


def check_own_folders(program: TaskProgram, *, temporary_checkpoints: bool) -> None:
    """Refuse a program that needs a folder which driver and executors share. Raises EngineError."""
    if temporary_checkpoints:
        raise EngineError(
            "execution.checkpointing.dir is not set: the executors would write checkpoints to folders of their own machines.",
            hint="set it to a folder that all machines mount, or to an object store, such as s3://bucket/folder.",
        )
    needs = []
    if replace(program.dependencies.files, python_files=()) != NO_DEPENDENCIES:
        needs.append("archives, cached files or requirements")
    if any(node.name == "CacheWrite" for vertex in program.plan.job_graph.vertices.values() for node in vertex.operators):
        needs.append("a cached stream")
    if needs:
        raise EngineError(
            f"The program has {' and '.join(needs)}, which need a folder that the driver and all executors access.",
            hint="set io.tmp.dirs to a folder that all machines mount, or send files with --files and --archives of "
            "`flinkish submit`.",
        )


@functools.cache
def socket_folder() -> Path:
    """Return the folder for the sockets of flinkish's session on one machine, or for the package that it sends to executors.

    It is removed when this process ends; if that is killed, the next process removes it, as Spark leaves sockets behind. A JVM
    uses the first folder that it was given, so there is one for all sessions.
    """
    folder = make_scratch_folder(None)
    if len(str(folder)) <= _LONGEST_SOCKET_FOLDER:
        return folder
    folder.rmdir()
    remove_orphans(_SHORT, _SHORT_PREFIX)
    return make_folder(_SHORT, _SHORT_PREFIX)
