"""Runs one after the other for minutes, without restarting the parties: what grows, what is left.

Three parties and a coordinator in processes of their own. A party's command ends with its release;
here each process goes on to the next run of the study, as a service that is started once would:
a signed approval for many attempts, a session and a process without a network for every run. What a
run leaves behind in memory, open files, threads or processes would add up.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from confrere.errors import ConfrereError
from confrere_federation.engines.keys import Authority, read_node_key
from confrere_federation.engines.line import carrying, run_party
from confrere_federation.engines.offline import AtHome, without_network
from confrere_federation.progress import Progress
from confrere_federation.studies.running import CoordinatorSession, make_approval, party_session
from confrere_federation.studies.study_file import Study, read_local
from tests.wire.deployment import PARTIES, Deployment

SECONDS = 600.0
ATTEMPTS = 100


def be_party(folder: Path, study: Study, name: str, port: int) -> None:
    """Answer run after run, until there is a file that says it is over."""
    local = read_local(folder / f"{name}/studies/{study.id}/local.toml")
    file = folder / f"{name}.approval"
    agreed = make_approval(
        study, local, approved_by="the officer", reason="a benchmark", attempts=ATTEMPTS
    )
    file.write_bytes(agreed.document(local.key_path))
    home = folder / f"home-{name}"
    home.mkdir()
    run = 0
    while not (folder / "over").exists():
        run += 1
        out = folder / f"had/{name}/{run}"
        with without_network(
            lambda out=out: AtHome(party_session(study, local, approval=file, out=out), {}), print
        ) as session:
            run_party(
                session,
                coordinator=f"127.0.0.1:{port}",
                authority=folder / "coordinator/authority/ca.pem",
                key=read_node_key(folder / f"{name}/keys/node.key"),
                progress=Progress(home),
                patience=60,
            )
            assert session.state == "released"


def measure(seconds: float) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as place:
        deployment = Deployment(
            Path(place), changes={"cap = { epsilon = 1.0 }": "cap = { epsilon = 200.0 }"}
        )
        folder, study, port = deployment.folder, deployment.study, deployment.port
        for name in PARTIES:
            policy = folder / name / "policy.toml"
            text = policy.read_text().replace("lifetime_epsilon = 3.0", "lifetime_epsilon = 200.0")
            policy.write_text(text)
        (folder / "tmp").mkdir()
        tempfile.tempdir = str(folder / "tmp")  # what is left there is left by a run
        authority = Authority.in_(folder / "coordinator/authority")
        children = []
        for name in PARTIES:
            child = os.fork()
            if child == 0:
                try:
                    be_party(folder, study, name, port)
                except ConfrereError as error:
                    sys.stderr.write(f"{name}: {error}\n")
                finally:
                    os._exit(0)
            children.append(child)
        try:
            return _asked(folder, study, deployment, authority, children, seconds)
        finally:
            tempfile.tempdir = None
            (folder / "over").touch()
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _asked(folder, study, deployment, authority, children, seconds):
    heads = [psutil.Process(), *(psutil.Process(child) for child in children)]
    nodes = {name: folder / f"coordinator/nodes/{name}.pem" for name in PARTIES}
    rows, began = [], time.monotonic()
    marks = [0.0, *(seconds * part / 5 for part in range(1, 6))]
    for attempt in range(1, ATTEMPTS + 1):
        with carrying(
            nodes=nodes, authority=authority, host="127.0.0.1", port=deployment.port
        ) as carrier:
            home = folder / "runs" / str(attempt)
            home.mkdir(parents=True)
            finished = CoordinatorSession(
                study,
                key=folder / "coordinator.key",
                folder=home,
                carrier=carrier,
                out=folder / "out" / str(attempt),
                attempt=attempt,
                timeout=120,
            ).run()
        assert (finished.left_out, finished.unsigned) == ({}, {})
        if time.monotonic() - began >= marks[0]:
            rows.append([f"{time.monotonic() - began:.0f} s", str(attempt), *_state(heads, folder)])
            marks = [mark for mark in marks[1:] if mark > time.monotonic() - began]
        if not marks:
            break
        # A hundred runs are what an approval has: spread them.
        time.sleep(max(0.0, began + attempt * seconds / ATTEMPTS - time.monotonic()))
    return rows


def _state(heads: list[psutil.Process], folder: Path) -> list[str]:
    time.sleep(1.0)  # who has just ended has ended
    return [
        ", ".join(f"{p.memory_info().rss / 2**20:.1f}" for p in heads),
        ", ".join(str(p.num_fds()) for p in heads),
        ", ".join(str(p.num_threads()) for p in heads),
        str(sum(len(p.children(recursive=True)) for p in heads[1:])),
        str(len(list((folder / "tmp").iterdir()))),
        str(sum(1 for _ in folder.rglob("*"))),
    ]


def main() -> None:
    table = Table(
        *("after", "runs", "MB: coordinator, parties", "open files", "threads"),
        *("processes without network", "in the temporary folder", "files of the study"),
        title="runs one after the other, signed and charged",
    )
    for row in measure(SECONDS):
        table.add_row(*row)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
