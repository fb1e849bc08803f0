"""The coordinator's end of the Flower engine: a job in, an outcome out, a journal in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from confrere.errors import QuorumMissed
from confrere.federation.engine import FlowerFederation
from confrere.federation.job import Job
from confrere.protocols import Federation, Journalled, Outcome, Payload

#: The run configuration's one entry: the folder with the job.
RUN_CONFIG = "folder"

JOB, JOURNAL, OUTCOME, FAILURE = "job", "journal", "outcome", "failure"

_POLL_SECONDS = 1.0


def coordinator_app() -> ServerApp:
    """Return the ``ServerApp`` of a coordinator."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        folder = Path(str(context.run_config[RUN_CONFIG]))
        try:
            work(folder, lambda run, schema: FlowerFederation(grid, run=run, schema=schema))
        except Exception as error:
            _write(folder / FAILURE, f"{type(error).__name__}: {error}".encode())
            raise

    return app


def work(folder: Path, connect: Callable[[str, str | None], Federation]) -> Outcome:
    """Do the job in ``folder``, or go on with it, and leave the outcome there."""
    job = Job.from_payload(Payload.decode((folder / JOB).read_bytes()))
    federation = Journalled(lambda run: connect(run, job.schema), folder / JOURNAL)
    _wait_for(federation, job)
    outcome = job.run(federation)
    _write(folder / OUTCOME, outcome.to_payload().encode())
    return outcome


def _wait_for(federation: Federation, job: Job) -> None:
    deadline = time.monotonic() + job.timeout
    while missing := set(job.parties) - set(federation.parties()):
        if time.monotonic() > deadline:
            raise QuorumMissed(f"not connected: {', '.join(sorted(missing))}.")
        time.sleep(_POLL_SECONDS)


def _write(path: Path, content: bytes) -> None:
    # Whoever waits for the file must never see half of it.
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content)
    draft.replace(path)
