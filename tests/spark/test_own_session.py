"""The session that flinkish makes: kept for further jobs, not seen by the program, and out of the way of its own sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.child import python

pytestmark = pytest.mark.spark

_SCRIPT = """
import os, sys, threading, time
from pyspark import SparkContext
from pyspark.sql import SparkSession
from flinkish.common import Configuration, Row, Types
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameSink
from flinkish.engine.spark import parking

def job(**settings):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"execution.engine": "spark", **settings}))
    env.set_parallelism(1)
    with env.from_collection([1, 2], Types.LONG()).map(lambda n: n + 1, Types.LONG()).execute_and_collect() as results:
        assert sorted(results) == [2, 3]

def parked():
    return parking._parked.sparkContext.applicationId

job()
print("hidden", SparkContext._active_spark_context, SparkSession.getActiveSession())
first = parked()
job()
print("kept", parked() == first)
pid = os.fork()
if not pid:
    sys.exit()
os.waitpid(pid, 0)
job()
print("still kept", parked() == first)
parking._parked.sparkContext._jsc.sc().stop()
job()
print("after it stopped by itself, another", parked() != first)
first = parked()
job(**{"spark.sql.session.timeZone": "Asia/Tokyo"})
second = parked()
print("another", second != first)
session = SparkSession.builder.master("local[1]").appName("mine").getOrCreate()
print("mine", session.sparkContext.appName, session.sparkContext.master, parking._parked)
job()
print("still", session.range(3).count(), SparkSession.getActiveSession().sparkContext.appName)
session.stop()
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "spark"}))
env.from_collection([1], Types.LONG()).filter(lambda n: time.sleep(1)).print()
client = env.execute_async()
while SparkContext._active_spark_context is None:
    time.sleep(0.01)
session = SparkSession.builder.getOrCreate()
client.get_job_execution_result().result()
session.stop()
job()
made = []
maker = threading.Thread(target=lambda: made.append(SparkSession.builder.getOrCreate()))
maker.start()
job()
maker.join()
print("made at the same time", len(made))
made[0].stop()
def write(df, epoch):
    print("views", [table.name for table in df.sparkSession.catalog.listTables()], df.sparkSession.conf.get("my.setting", None))
    df.createOrReplaceTempView("latest")
    df.sparkSession.conf.set("my.setting", "1")
for _ in range(2):
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "spark"}))
    rows = env.from_collection([Row(n=1)], Types.ROW_NAMED(["n"], [Types.LONG()])).set_parallelism(1)
    rows.sink_to(DataFrameSink(write)).set_parallelism(1)
    env.execute()
print("new", parked() not in (first, second, session))
"""


def test_a_session_of_ours_stays_for_further_jobs_and_gives_way_to_one_of_the_program(tmp_path: Path) -> None:
    run = python("-c", _SCRIPT, folder=tmp_path)
    assert run.stdout.splitlines() == [
        "hidden None None",
        "kept True",
        "still kept True",
        "after it stopped by itself, another True",
        "another True",
        "mine mine local[1] None",
        "still 3 mine",
        "made at the same time 1",
        "views [] None",
        "views [] None",
        "new True",
    ]
    lines = [line for line in run.stderr.splitlines() if "Traceback" in line or " ERROR " in line or "Exception" in line]
    assert lines == []
