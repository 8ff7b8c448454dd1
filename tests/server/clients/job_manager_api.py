"""Makes all GET calls of flink-job-manager-api to a server; prints as JSON what became of each. Arguments: URL, job id."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
import urllib.request

import flink_job_manager_api.api.default as calls
from flink_job_manager_api import Client


def main(url: str, job_id: str) -> None:
    def get(path: str) -> dict:
        with urllib.request.urlopen(f"{url}{path}", timeout=30) as answer:
            return json.load(answer)

    values = {
        "jobid": job_id,
        "vertexid": get(f"/jobs/{job_id}")["vertices"][1]["id"],
        "taskmanagerid": get("/taskmanagers")["taskmanagers"][0]["id"],
        "subtaskindex": 0,
        "attempt": 0,
        "triggerid": "0" * 32,
    }
    results = {}
    for module in pkgutil.iter_modules(calls.__path__):
        if not module.name.startswith("get_"):
            continue
        call = importlib.import_module(f"{calls.__name__}.{module.name}").sync_detailed
        needed = [name for name, each in inspect.signature(call).parameters.items() if each.default is inspect.Parameter.empty]
        values["checkpointid"] = get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["id"]
        arguments = {name: values[name] for name in needed if name != "client"}
        try:
            with Client(base_url=f"{url}/v1") as client:
                answer = call(client=client, **arguments)
        except Exception as error:
            results[module.name] = f"raises {type(error).__name__}"
        else:
            parsed = "None" if answer.parsed is None else "parsed"
            results[module.name] = f"{int(answer.status_code)} {parsed}"
    print(json.dumps(results, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
