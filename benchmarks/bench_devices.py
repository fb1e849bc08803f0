"""A hundred simulated devices through the real transport: a vote that nobody sees into, by study.

Every device has a study, a table, a ledger, an approval, a node key and a TLS connection of its
own; all of them live in threads of one process, the coordinator in another.
"""

from __future__ import annotations

import hashlib
import os
import resource
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from confrere.estimators.predictions import predict
from confrere.ledger import Ledger
from confrere.release import generate_key
from confrere_federation.engines.keys import make_authority, make_node_key, read_node_key
from confrere_federation.engines.line import carrying, run_party
from confrere_federation.progress import Progress
from confrere_federation.studies.running import CoordinatorSession, make_approval, party_session
from confrere_federation.studies.study_file import Study, read_local, read_study, write_template
from tests.wire.deployment import free_ports
from tests.wire.signed_run import confirm_all

DEVICES = 100


def write_study(folder: Path, count: int, trust: str) -> tuple[Study, pd.DataFrame]:
    """Write the study of so many devices, and what each of them has; return fresh patients."""
    write_template(folder, seed=0)
    main = pd.read_csv(folder / "local/main.csv")
    public = pd.read_csv(folder / "local/branch-1.csv").drop(columns=["patient_id", "diabetes"])
    public.to_csv(folder / "public.csv", index=False)
    digest = hashlib.sha256((folder / "public.csv").read_bytes()).hexdigest()
    asking = generate_key(folder / "coordinator.key").read_text().strip()
    parties = []
    for k, rows in enumerate(np.array_split(main.index, count)):
        name = f"device-{k}"
        main.loc[rows].to_csv(folder / f"local/{name}.csv", index=False)
        key = generate_key(folder / f"local/{name}.key").read_text().strip()
        make_node_key(folder / f"{name}.node")
        parties.append(
            f'[[party]]\nname = "{name}"\ndataset = "diary"\nkey = "{key}"\n'
            "cap = { epsilon = 1.0 }\n"
        )
        (folder / f"local/{name}.toml").write_text(
            f'party = "{name}"\ndata_path = "{name}.csv"\nkey_path = "{name}.key"\n'
            f'coordinator = "{asking}"\nauxiliary_path = "../public.csv"\n'
            '[policy]\nprivacy_unit = "party"\nneighbours = "replace-one"\ntrust = "coordinator"\n'
        )
    text = (folder / "study.toml").read_text()
    begin, end = text.index("[[party]]"), text.index("[federation]")
    text = text[:begin] + "\n".join(parties) + text[end:]
    for old, new in {
        'name = "average"': f'name = "statistic"\ntrust = "{trust}"',
        'engine = "local"': 'engine = "line"',
        'privacy_unit = "record"': 'privacy_unit = "party"',
        "[federation]": f'[auxiliary]\nsha256 = "{digest}"\n\n[federation]',
    }.items():
        text = text.replace(old, new, 1)
    (folder / "study.toml").write_text(text)
    confirm_all(folder, [f"device-{k}" for k in range(count)])
    write_template(folder / "fresh", seed=1)
    return read_study(folder / "study.toml"), pd.read_csv(folder / "fresh/local/main.csv")


def be_devices(folder: Path, study: Study, port: int) -> None:
    """Be all devices, each in a thread; end when all of them have the release."""

    def be(name: str) -> None:
        local = read_local(folder / f"local/{name}.toml")
        approval = folder / f"{name}.approval"
        agreed = make_approval(study, local, approved_by="its owner", reason="a benchmark")
        approval.write_bytes(agreed.document(local.key_path))
        home = folder / f"home-{name}"
        home.mkdir()
        session = party_session(study, local, approval=approval, out=folder / f"had/{name}")
        (home / "ready").touch()
        run_party(
            session,
            coordinator=f"127.0.0.1:{port}",
            authority=folder / "authority/ca.pem",
            key=read_node_key(folder / f"{name}.node"),
            progress=Progress(home),
            patience=600,
        )
        assert session.state == "released"

    threads = [threading.Thread(target=be, args=(party.name,)) for party in study.parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def used() -> float:
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def measure(count: int, trust: str) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        study, fresh = write_study(folder, count, trust)
        authority = make_authority(folder / "authority", ["127.0.0.1"])
        (port,) = free_ports(1)
        child = os.fork()
        if child == 0:
            try:
                be_devices(folder, study, port)
                (folder / "done").touch()
            finally:
                os._exit(0)
        began = time.monotonic()
        while len(list(folder.glob("home-*/ready"))) < count:
            assert os.waitpid(child, os.WNOHANG) == (0, 0)
            time.sleep(0.2)
        prepared = time.monotonic() - began
        began, cpu = time.monotonic(), used()
        nodes = {party.name: folder / f"{party.name}.node.pem" for party in study.parties}
        with carrying(nodes=nodes, authority=authority, host="127.0.0.1", port=port) as carrier:
            while len(carrier.connected()) < len(nodes):
                time.sleep(0.05)
            connected = time.monotonic() - began
            finished = CoordinatorSession(
                study,
                key=folder / "coordinator.key",
                folder=folder,
                carrier=carrier,
                out=folder / "out",
                auxiliary=folder / "public.csv",
                timeout=300,
            ).run()
        wall, cpu = time.monotonic() - began, used() - cpu
        _, _, theirs = os.wait4(child, 0)
        assert (folder / "done").exists()
        assert (finished.left_out, finished.unsigned) == ({}, {})
        (made,) = finished.made
        for party in study.parties:
            (entry,) = Ledger(folder / f"local/{party.name}.ledger").entries()
            assert (entry.state, entry.spent) == ("released", 1.0)
        found = predict(made.release, fresh)["probability of yes"]
        auc = roc_auc_score(np.asarray(fresh["diabetes"] == "yes"), found)
    return [
        str(count),
        trust,
        f"{prepared:.0f} s",
        f"{connected:.1f} s",
        f"{wall - connected:.1f} s",
        f"{cpu:.1f} s",
        f"{theirs.ru_utime + theirs.ru_stime:.1f} s",
        f"{theirs.ru_maxrss / 2**10:.0f} MB",
        f"{auc:.3f}",
    ]


def main() -> None:
    table = Table(
        *("devices", "who adds noise", "tables read, approvals made", "all connected"),
        *("asked, released, signed by all", "coordinator's CPU", "devices' CPU, with the tables"),
        *("devices' memory", "AUC"),
        title="statistic between devices, epsilon 1 for each",
    )
    for trust in ("sum", "coordinator"):
        table.add_row(*measure(DEVICES, trust))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
