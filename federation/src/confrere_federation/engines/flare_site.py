"""What a site's NVIDIA FLARE may run: our two classes and nothing else. It imports nothing of it.

:func:`switch` makes a site's own settings so, :func:`check_site` looks at every start whether they
still are, and :func:`project_files` is what ``nvflare provision`` and ``nvflare job submit`` want.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from confrere.errors import EngineFailed

#: Names the study's folder to the site's FLARE.
FOLDER = "CONFRERE_FLARE"
TASK = "confrere"
CLASSES = (
    "confrere_federation.engines.flare.Coordinator",
    "confrere_federation.engines.flare.FlareParty",
)

#: Who submits the job.
ADMIN = "coordinator@confrere.study"

#: Seconds that a site's job waits for the server's, where FLARE would give up after a few: how
#: busy a machine is decides about no study.
_PATIENCE = {
    "runner_sync_timeout": 30.0,
    "max_runner_sync_timeout": 1800.0,
    "task_check_timeout": 60.0,
    "get_task_timeout": 60.0,
    "submit_task_result_timeout": 300.0,
    "notify_cp_msg_timeout": 60.0,
    "cell_wait_timeout": 60.0,
}

#: Where FLARE keeps the jobs of all servers of a machine, unless it is told otherwise.
_SHARED = "/tmp/nvflare"  # noqa: S108

_NEVER = ("byoc", "shell_commands")
_MAY = {
    "project_admin": {"submit_job": "any", "manage_job": "any", "view": "any", "operate": "any"},
    "lead": {"submit_job": "any", "manage_job": "n:submitter", "view": "any"},
    "org_admin": {"view": "any", "operate": "o:site"},
    "member": {"view": "any"},
}
_RESOURCES = {
    "class_allow_list": list(CLASSES),
    "class_list_enforcement_mode": "enforce",
    "allow_log_streaming": False,
}


def switch(workspace: Path) -> None:
    """Write a site's own settings: our two classes, nobody's code, no shell, no streamed logs."""
    resources = _read(workspace, "local/resources.json.default") | _RESOURCES
    for server in _tables(resources.get("servers")):
        server["admin_timeout"] = _PATIENCE["get_task_timeout"]
    for one in _tables(resources.get("components")):
        if one.get("id") == "job_scheduler":
            one["args"] = {"max_jobs": 1, "max_schedule_count": 10**6, "max_schedule_interval": 10}
    own = json.dumps(resources, indent=2).replace(_SHARED, json.dumps(str(workspace))[1:-1])
    never = dict.fromkeys(_NEVER, "none")
    roles = {role: {**may, **never} for role, may in _MAY.items()}
    for name, content in {
        "resources.json": own,
        "authorization.json": json.dumps({"format_version": "1.0", "permissions": roles}),
    }.items():
        (workspace / "local" / name).write_text(content)


def _tables(found: object) -> list[dict[str, object]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def check_site(workspace: Path, *, server: bool) -> None:
    """Refuse to begin where the site's FLARE might run anything but our two classes."""
    resources = _read(workspace, "local/resources.json")
    startup = _read(workspace, f"startup/fed_{'server' if server else 'client'}.json")
    roles = _read(workspace, "local/authorization.json").get("permissions")
    never = isinstance(roles, dict) and all(
        isinstance(may, dict) and all(may.get(one) == "none" for one in _NEVER)
        for may in roles.values()
    )
    good = {name: resources.get(name) == value for name, value in _RESOURCES.items()}
    good |= {
        "require_signed_jobs": startup.get("require_signed_jobs") is True,
        "permissions": never,
        # Servers of one machine would run one another's jobs.
        "uri_root": _SHARED not in json.dumps(resources),
    }
    for name in [name for name, fine in good.items() if not fine]:
        raise EngineFailed(
            f"{name} of this site's FLARE allows more than the classes of a study; set it back: "
            "python -m confrere_federation.engines.flare_site WORKSPACE."
        )


def _read(workspace: Path, name: str) -> dict[str, object]:
    try:
        found = json.loads((workspace / name).read_text())
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise EngineFailed(f"{name} of this site's FLARE is not there, or not to be read.")
    return found


def project_files(name: str, parties: Sequence[str], host: str, port: int) -> dict[str, bytes]:
    """Return a project for ``nvflare provision``, and the job that is submitted then."""
    asking, answering = CLASSES
    path = "nvflare.lighter.impl"
    documents = {
        "project.yml": {  # JSON is YAML
            "api_version": 3,
            "name": name,
            "participants": [
                {"name": host, "type": "server", "org": "coordinator", "fed_learn_port": port},
                {"name": ADMIN, "type": "admin", "org": "coordinator", "role": "project_admin"},
                *(
                    {
                        "name": party,
                        "type": "client",
                        "org": re.sub(r"[^A-Za-z0-9_]", "_", party),  # FLARE's are narrower
                        "allow_log_streaming": False,
                    }
                    for party in parties
                ),
            ],
            "builders": [
                {"path": f"{path}.workspace.WorkspaceBuilder"},
                {
                    "path": f"{path}.static_file.StaticFileBuilder",
                    "args": {"require_signed_jobs": True},
                },
                {"path": f"{path}.cert.CertBuilder"},
                {"path": f"{path}.signature.SignatureBuilder"},
            ],
        },
        "job/meta.json": {
            "name": name,
            "resource_spec": {},
            "min_clients": len(parties),
            "deploy_map": {"app": ["server", *parties]},
        },
        "job/app/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": TASK, "path": asking, "args": {}}],
        },
        "job/app/config/config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": [TASK], "executor": {"path": answering, "args": {}}}],
            **_PATIENCE,
        },
    }
    return {file: json.dumps(one, indent=2).encode() for file, one in documents.items()}


if __name__ == "__main__":
    switch(Path(sys.argv[1]))
