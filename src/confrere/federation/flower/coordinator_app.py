"""The coordinator's end of the Flower engine: a job in, an outcome out, a journal in between."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from confrere.errors import QuorumMissed
from confrere.federation import Federation, Journalled, Outcome, Payload
from confrere.federation.flower.engine import FlowerFederation
from confrere.federation.flower.job import Job

#: The run configuration's one entry: the folder with the job.
RUN_CONFIG = "folder"

JOB, JOURNAL, OUTCOME, FAILURE = "job", "journal", "outcome", "failure"
_WORKING = "working"

_POLL_SECONDS = 1.0


def coordinator_app() -> ServerApp:
    """Return the ``ServerApp`` of a coordinator."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        folder = Path(str(context.run_config[RUN_CONFIG]))
        with _working(folder):
            try:
                work(folder, lambda run, schema: FlowerFederation(grid, run=run, schema=schema))
            except Exception as error:
                write_whole(folder / FAILURE, f"{type(error).__name__}: {error}".encode())
                raise

    return app


def work(folder: Path, connect: Callable[[str, str | None], Federation]) -> Outcome:
    """Do the job in ``folder``, or go on with it, and leave the outcome there."""
    if (folder / OUTCOME).exists():
        return Outcome.from_payload(Payload.decode((folder / OUTCOME).read_bytes()))
    job = Job.from_payload(Payload.decode((folder / JOB).read_bytes()))
    federation = Journalled(lambda run: connect(run, job.schema), folder / JOURNAL)
    _wait_for(federation, job)
    outcome = job.run(federation)
    write_whole(folder / OUTCOME, outcome.to_payload().encode())
    return outcome


def is_working(folder: Path) -> bool:
    """Whether an app is at the job in ``folder``."""
    with (folder / _WORKING).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that nobody ever sees half of."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


@contextmanager
def _working(folder: Path) -> Iterator[None]:
    # A restarted SuperLink may start an earlier app beside ours: one works, the other waits and
    # finds the outcome. The lock goes with the process.
    with (folder / _WORKING).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _wait_for(federation: Federation, job: Job) -> None:
    deadline = time.monotonic() + job.timeout
    while missing := set(job.parties) - set(federation.parties()):
        if time.monotonic() > deadline:
            raise QuorumMissed(f"not connected: {', '.join(sorted(missing))}.")
        time.sleep(_POLL_SECONDS)
