"""Calls the tools of flink-mcp-server in this process; prints as JSON what became of each. Arguments: URL, job id."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any


async def main(job_id: str) -> None:
    # Imported late: it reads the address of the server from the environment.
    from flink_mcp import server

    managers: Any = await server.taskmanagers()
    calls: dict[str, Any] = {
        "cluster_overview": server.cluster_overview(),
        "list_clusters": server.list_clusters(),
        "fleet_overview": server.fleet_overview(),
        "list_jobs": server.list_jobs(),
        "job_details": server.job_details(job_id),
        "job_exceptions": server.job_exceptions(job_id),
        "checkpoint_stats": server.checkpoint_stats(job_id),
        "backpressure": server.backpressure(job_id),
        "list_savepoints": server.list_savepoints(job_id),
        "job_timeline": server.job_timeline(job_id),
        "diagnose_job": server.diagnose_job(job_id),
        "taskmanagers": server.taskmanagers(),
        "list_log_files": server.list_log_files(),
        "list_log_files of a task manager": server.list_log_files(managers[0]["id"]),
        "get_logs": server.get_logs(),
        "get_logs of a task manager": server.get_logs(managers[0]["id"]),
        "job_metrics": server.job_metrics(job_id, ["uptime", "numRestarts"]),
        "list_jars": server.list_jars(),
        "cluster_config": server.cluster_config(),
        "job_config": server.job_config(job_id),
    }
    results = {}
    for name, call in calls.items():
        try:
            results[name] = await call
        except Exception as error:
            results[name] = f"raises {type(error).__name__}: {error}"
    print(json.dumps(results, indent=1, default=str))


if __name__ == "__main__":
    os.environ["FLINK_REST_URL"] = sys.argv[1]
    asyncio.run(main(sys.argv[2]))
