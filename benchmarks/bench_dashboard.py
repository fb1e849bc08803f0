"""How soon the dashboard shows a ledger of a hundred thousand rows, and what an idle one costs."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from benchmarks.bench_ledger import write_long
from benchmarks.measured import fill, markdown, write_record

IDLE_SECONDS = 60.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONFRERE_WITNESS"] = f"{folder}/witness"
        root = Path(folder) / "books"
        root.mkdir()
        rows = write_long(root / "long.ledger")
        record = {"rows": rows, **_measured(root)}
    write_record("dashboard", record)
    fill("dashboard.md", "dashboard", table_of(record))
    Console().print(record)


def table_of(record: dict[str, Any]) -> str:
    """Return what the page about the dashboard shows."""
    first, page, idle = record["budgets"], record["ledger"], record["idle"]
    rows = [
        ["the budgets, when it is first opened", f"{first['cpu_seconds']:.2f} s of one core"],
        ["its own page", f"{page['cpu_seconds']:.2f} s of one core"],
        ["nobody looks: processor", f"{idle['cpu_percent']:.2f} % of one core"],
        ["nobody looks: memory", f"{idle['megabytes']:.0f} MB"],
    ]
    return markdown(["what", "costs"], rows)


def _measured(root: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "confrere.cli", "dashboard", str(root)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as dashboard:
        try:
            assert dashboard.stderr is not None
            address = re.search(r"http://(\S+?)/enter\?token=(\S+)", dashboard.stderr.readline())
            assert address is not None
            process = psutil.Process(dashboard.pid)
            cookie = _get(address[1], f"/enter?token={address[2]}")[1]
            first = _timed(process, address[1], "/", cookie)
            ledger = re.search(r'href="(/ledger/\w+)"', first.pop("text"))
            assert ledger is not None
            page = _timed(process, address[1], ledger[1], cookie)
            assert "are being checked" in page.pop("text")
            alone = _alone(process)
            return {"budgets": first, "ledger": page, "idle": alone}
        finally:
            dashboard.terminate()


def _get(host: str, path: str, cookie: str = "") -> tuple[str, str]:
    line = http.client.HTTPConnection(host, timeout=60)
    line.request("GET", path, headers={"Cookie": cookie} if cookie else {})
    answer = line.getresponse()
    assert answer.status in (200, 303), answer.status
    found = (answer.getheader("set-cookie") or "").split(";")[0]
    text = answer.read().decode()
    line.close()
    return text, found


def _timed(process: psutil.Process, host: str, path: str, cookie: str) -> dict[str, Any]:
    spent, start = process.cpu_times(), time.perf_counter()
    text, _ = _get(host, path, cookie)
    now = process.cpu_times()
    cpu = now.user + now.system - spent.user - spent.system
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu, "text": text}


def _alone(process: psutil.Process) -> dict[str, float]:
    """Let the dashboard stand for a while, once it has checked the ledger."""
    time.sleep(IDLE_SECONDS)
    spent = process.cpu_times()
    time.sleep(IDLE_SECONDS)
    now = process.cpu_times()
    cpu = now.user + now.system - spent.user - spent.system
    return {"cpu_percent": 100 * cpu / IDLE_SECONDS, "megabytes": process.memory_info().rss / 1e6}


if __name__ == "__main__":
    main()
