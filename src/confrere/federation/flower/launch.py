"""A coordinator's process: it keeps a SuperLink and the app in it alive until the job is done.

Flower resumes nothing: its server app dies with the SuperLink. Our journal does, so whatever died
is started again under the same run, and so is a coordinator that was killed itself.
"""

from __future__ import annotations

import logging
import signal
import ssl
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from confrere import errors
from confrere.errors import EngineFailed, FederationError
from confrere.federation import Outcome, Payload
from confrere.federation.flower.bundle import REGISTERED, submit
from confrere.federation.flower.coordinator_app import (
    FAILURE,
    JOB,
    OUTCOME,
    is_working,
    write_whole,
)
from confrere.federation.flower.job import Job
from confrere.federation.flower.keys import Authority
from confrere.federation.flower.programs import Program, alone, make_room

_LINK = "flower-superlink"
_START_SECONDS = 120.0
_POLL_SECONDS = 0.2
_STARTS = 10

logger = logging.getLogger("confrere.federation.flower")


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
    with alone(folder, "coordinator"):
        content = job.to_payload().encode()
        if not (folder / JOB).exists():
            write_whole(folder / JOB, content)
        elif (folder / JOB).read_bytes() != content:
            raise EngineFailed(f"{folder}: there is another job in this folder; use a new one.")
        if not (folder / OUTCOME).exists():
            _serve(coordinator, folder, time.monotonic() + job.timeout * (2 + _rounds(job)))
        return Outcome.from_payload(Payload.decode((folder / OUTCOME).read_bytes()))


def registered_keys(coordinator: Coordinator) -> int:
    """Return how many parties' keys the running coordinator accepts."""
    place = coordinator.folder.resolve() / REGISTERED
    return len(list(place.iterdir())) if place.exists() else 0


def _serve(coordinator: Coordinator, folder: Path, deadline: float) -> None:
    for _ in range(_STARTS):
        (folder / FAILURE).unlink(missing_ok=True)
        with _superlink(coordinator, folder) as link:
            try:
                submit(
                    folder,
                    address=coordinator.address,
                    authority=coordinator.authority.certificate,
                    nodes=coordinator.nodes,
                )
                if _finished(folder, link, deadline):
                    return
            except EngineFailed:
                if link.code is None:
                    raise
            logger.warning("%s; starting it again", link.failed("or the app in it ended"))
    raise link.failed(f"or the app in it ended {_STARTS} times")


@contextmanager
def _superlink(coordinator: Coordinator, folder: Path) -> Iterator[Program]:
    make_room(folder, _LINK, coordinator.host, coordinator.port)
    authority = coordinator.authority
    link = Program(
        _LINK,
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
        # Asked to end it would wait for the parties' connections, and they stay.
        last=signal.SIGKILL,
    )
    try:
        _await_health(coordinator, link)
        yield link
    finally:
        link.stop()


def _await_health(coordinator: Coordinator, link: Program) -> None:
    """Wait until the link answers; one that dies before is told from one that never could."""
    context = ssl.create_default_context(cafile=str(coordinator.authority.certificate))
    deadline = time.monotonic() + _START_SECONDS
    while link.code is None:
        if time.monotonic() > deadline:
            raise link.failed("did not start in time")
        with suppress(OSError):
            url = f"https://{coordinator.address}/health"
            with urllib.request.urlopen(url, context=context, timeout=5):
                return
        time.sleep(_POLL_SECONDS)
    if link.code > 0:
        raise link.failed(f"ended with code {link.code}")


def _finished(folder: Path, link: Program, deadline: float) -> bool:
    """Wait for the outcome; False if what was to bring it has died."""
    seen = False
    start_by = time.monotonic() + _START_SECONDS
    while True:
        # Asked first: an app writes its last word before it ends.
        works = is_working(folder)
        if (folder / OUTCOME).exists():
            return True
        if link.code is not None:
            return False
        if (folder / FAILURE).exists():
            raise _failure((folder / FAILURE).read_text(encoding="utf-8"), link)
        if seen and not works:
            return False
        seen = seen or works
        if not seen and time.monotonic() > start_by:
            raise link.failed("did not start the coordinator's app")
        if time.monotonic() > deadline:
            raise EngineFailed("the run took longer than its rounds' timeouts together.")
        time.sleep(_POLL_SECONDS)


def _failure(text: str, link: Program) -> FederationError:
    """Return the app's own error, of its own class where that is about the federation."""
    name, _, message = text.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, FederationError):
        return kind(message)
    return EngineFailed(f"the coordinator's app failed: {text}; its log is {link.log}")


def _rounds(job: Job) -> int:
    return getattr(job.plan, "rounds", 1)
