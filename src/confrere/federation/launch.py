"""Start Flower's programs with our settings: TLS, node keys, no telemetry, no downloads.

Beside the two ends' own traffic nothing leaves: telemetry and update checks are off, dependencies
are never installed at run time, and Flower's files stay in the folder that is given.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from confrere.errors import FederationError
from confrere.federation.coordinator_app import FAILURE, JOB, OUTCOME, RUN_CONFIG
from confrere.federation.job import Job
from confrere.federation.keys import Authority
from confrere.federation.party_app import NODE_CONFIG
from confrere.protocols import Outcome, Payload

_CONNECTION = "confrere"
_REGISTERED = "registered"
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
{key} = "{folder}"
"""
# Flower looks for assignments without running the module.
_MODULE = """\
from confrere.federation import apps

client_app = apps.client_app
server_app = apps.server_app
"""
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Coordinator:
    """Where a coordinator works and how parties reach it.

    Parameters
    ----------
    folder : Path
        Its files: job, journal, outcome, Flower's state and logs.
    authority : Authority
        Its certificate.
    nodes : mapping of str to Path
        The public key of every party that may connect.
    host : str, default="127.0.0.1"
        Address to listen on.
    port : int, default=8000
        Port to listen on.
    """

    folder: Path
    authority: Authority
    nodes: Mapping[str, Path]
    host: str = "127.0.0.1"
    port: int = 8000

    @property
    def address(self) -> str:
        """Where parties connect to."""
        return f"{self.host}:{self.port}"


def run_coordinator(coordinator: Coordinator, job: Job) -> Outcome:
    """Serve a federation until the job is done, and return its outcome.

    Started again on the same folder after a crash, it goes on under the same run: parties re-send
    what they had answered and pay nothing. The folder of a finished job returns its outcome.
    """
    folder = coordinator.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    content = job.to_payload().encode()
    if (folder / JOB).exists() and (folder / JOB).read_bytes() != content:
        raise FederationError(f"{folder}: there is another job in this folder; use a new one.")
    (folder / JOB).write_bytes(content)
    if not (folder / OUTCOME).exists():
        with suppress(FileNotFoundError):
            (folder / FAILURE).unlink()
        with _superlink(coordinator) as link:
            _submit(coordinator)
            _await_outcome(folder, link, timeout=job.timeout * (2 + _rounds(job)))
    return Outcome.from_payload(Payload.decode((folder / OUTCOME).read_bytes()))


def run_party(
    party_file: str | os.PathLike[str],
    *,
    superlink: str,
    authority: str | os.PathLike[str],
    key: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    port: int = 9094,
) -> subprocess.Popen[bytes]:
    """Start a party's node; the caller waits for the process, or ends it.

    The coordinator must have registered the node's public key, else the node ends at once.

    Parameters
    ----------
    party_file : path-like
        See :func:`~confrere.federation.load_party`.
    superlink : str
        The coordinator's ``host:port``.
    authority : path-like
        The authority's certificate.
    key : path-like
        The node's private key.
    folder : path-like
        Flower's files and the node's log.
    port : int, default=9094
        Local port between the node and the process that answers; bound to this machine only.

    Notes
    -----
    The bundle that a coordinator submits names code that the node runs. Run the node as a user that
    can read nothing but what its party file names, and pass only operations you agree with there.
    """
    place = Path(folder).resolve()
    return _start(
        "flower-supernode",
        "--root-certificates",
        str(Path(authority).resolve()),
        "--superlink",
        superlink,
        "--auth-supernode-private-key",
        str(Path(key).resolve()),
        "--node-config",
        f'{NODE_CONFIG}="{Path(party_file).resolve()}"',
        "--port",
        str(port),
        "--isolation",
        "subprocess",
        folder=place,
    )


@contextmanager
def _superlink(coordinator: Coordinator) -> Iterator[subprocess.Popen[bytes]]:
    folder, authority = coordinator.folder.resolve(), coordinator.authority
    process = _start(
        "flower-superlink",
        "--ssl-certfile",
        str(authority.server_certificate),
        "--ssl-keyfile",
        str(authority.server_key),
        "--ssl-ca-certfile",
        str(authority.certificate),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        "--database",
        str(folder / "superlink.db"),
        "--host",
        coordinator.host,
        "--port",
        str(coordinator.port),
        "--isolation",
        "subprocess",
        folder=folder,
    )
    try:
        _await_health(coordinator, process)
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program, gently first."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def registered_keys(coordinator: Coordinator) -> int:
    """Return how many parties' keys the running coordinator accepts."""
    place = coordinator.folder.resolve() / _REGISTERED
    return len(list(place.iterdir())) if place.exists() else 0


def _submit(coordinator: Coordinator) -> None:
    """Register the parties' keys and start the coordinator's app."""
    folder = coordinator.folder.resolve()
    home = folder / "flower"
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
        f'address = "{coordinator.address}"\n'
        f'root-certificates = "{coordinator.authority.certificate}"\n'
    )
    app = folder / "app"
    shutil.rmtree(app, ignore_errors=True)
    (app / "confrere_federation").mkdir(parents=True)
    (app / "pyproject.toml").write_text(_APP.format(key=RUN_CONFIG, folder=folder))
    (app / "confrere_federation" / "__init__.py").write_text(_MODULE)
    registered = folder / _REGISTERED
    registered.mkdir(exist_ok=True)
    for name, key in coordinator.nodes.items():
        # A key registered twice is an error to Flower; a restart finds its mark.
        mark = registered / hashlib.sha256(Path(key).read_bytes()).hexdigest()
        if not mark.exists():
            _flwr(folder, "supernode", "register", str(Path(key).resolve()), _CONNECTION)
            mark.write_text(name)
    _flwr(folder, "run", str(app), _CONNECTION)


def _flwr(folder: Path, *arguments: str) -> None:
    done = subprocess.run(  # noqa: S603  our own arguments
        [_program("flwr"), *arguments],
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=_START_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        told = (done.stderr or done.stdout).strip()[-1000:]
        raise FederationError(f"flwr {arguments[0]} failed: {told}")


def _await_health(coordinator: Coordinator, process: subprocess.Popen[bytes]) -> None:
    context = ssl.create_default_context(cafile=str(coordinator.authority.certificate))
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise FederationError(
                f"flower-superlink ended with code {process.returncode}; see log."
            )
        with suppress(OSError):
            url = f"https://{coordinator.address}/health"
            with urllib.request.urlopen(url, context=context, timeout=1):
                return
        time.sleep(0.2)
    raise FederationError("flower-superlink did not start in time; see its log.")


def _await_outcome(folder: Path, link: subprocess.Popen[bytes], *, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not (folder / OUTCOME).exists():
        if (folder / FAILURE).exists():
            raise FederationError(f"the run failed: {(folder / FAILURE).read_text()}")
        if link.poll() is not None:
            raise FederationError(f"flower-superlink ended with code {link.returncode}; see log.")
        if time.monotonic() > deadline:
            raise FederationError("the run took longer than its rounds' timeouts together.")
        time.sleep(0.2)


def _rounds(job: Job) -> int:
    return getattr(job.plan, "rounds", 1)


def _start(program: str, *arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    (folder / "flower").mkdir(parents=True, exist_ok=True)
    with (folder / f"{program}.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603  our own arguments
            [_program(program), *arguments],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise FederationError(f"{name} is not installed: pip install 'confrere[flower]'.")
    return found


def _environment(folder: Path) -> dict[str, str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {
        **os.environ,
        "PATH": programs,
        "FLWR_HOME": str(folder / "flower"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }
