"""Hand the coordinator's app to a running SuperLink: keys registered, bundle submitted."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from confrere.errors import EngineFailed
from confrere.federation.flower.coordinator_app import RUN_CONFIG
from confrere.federation.flower.programs import environment, find_program

REGISTERED = "registered"

_CONNECTION = "confrere"
_SECONDS = 120.0
_KNOWN = "already in use"
_APP = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "confrere-federation"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "confrere"

[tool.flwr.app.components]
serverapp = "confrere_federation:server_app"
clientapp = "confrere_federation:client_app"

[tool.flwr.app.config]
{key} = {folder}
"""
# Flower looks for assignments without running the module.
_MODULE = """\
from confrere.federation.flower import apps

client_app = apps.client_app
server_app = apps.server_app
"""


def submit(folder: Path, *, address: str, authority: Path, nodes: Mapping[str, Path]) -> None:
    """Register the parties' keys and start the coordinator's app.

    Parameters
    ----------
    folder : Path
        The coordinator's.
    address : str
        Of the SuperLink.
    authority : Path
        The certificate that vouches for it.
    nodes : mapping of str to Path
        The public key of every party.
    """
    (folder / "flower" / "config.toml").write_text(
        f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
        f"address = {json.dumps(address)}\nroot-certificates = {json.dumps(str(authority))}\n",
        encoding="utf-8",
    )
    app = folder / "app"
    shutil.rmtree(app, ignore_errors=True)
    (app / "confrere_federation").mkdir(parents=True)
    project = _APP.format(key=RUN_CONFIG, folder=json.dumps(str(folder)))
    (app / "pyproject.toml").write_text(project, encoding="utf-8")
    (app / "confrere_federation" / "__init__.py").write_text(_MODULE, encoding="utf-8")
    for name, key in nodes.items():
        _register(folder, name, Path(key).resolve())
    _flwr(folder, "run", str(app), _CONNECTION)


def _register(folder: Path, name: str, key: Path) -> None:
    # A key registered twice is an error to Flower; a restart finds its mark.
    mark = folder / REGISTERED / hashlib.sha256(key.read_bytes()).hexdigest()
    if mark.exists():
        return
    mark.parent.mkdir(exist_ok=True)
    try:
        # The name goes with the key: no node can say that it is somebody else.
        _flwr(folder, "supernode", "register", str(key), _CONNECTION, "--name", name)
    except EngineFailed as error:
        if _KNOWN not in str(error):  # else it was killed before it could leave the mark
            raise
    mark.write_text(name, encoding="utf-8")


def _flwr(folder: Path, *arguments: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603  our own arguments
            [find_program("flwr"), *arguments],
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineFailed(f"flwr {arguments[0]} did not end in {_SECONDS:g} s.") from None
    if done.returncode != 0:
        told = " ".join((done.stderr or done.stdout).split())[-1000:]
        raise EngineFailed(f"flwr {arguments[0]} failed: {told}")
