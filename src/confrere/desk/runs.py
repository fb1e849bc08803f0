"""Runs: who was asked what and how that ended, live; and the counts that programs may read."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confrere.desk.finding import Place, state_of
from confrere.progress import STATUS, read_progress, summary

#: How often a watched run's file is looked at, and how long silence may last on the line.
_TICK_SECONDS = 1.0
_SILENCE_TICKS = 15

#: After so many seconds without a word a run that has not ended is shown as silent.
_SILENT_SECONDS = 120
_LAST_LINES = 20
_LOG_BYTES = 8192


def run_facts(place: Place, now: datetime | None = None) -> dict[str, Any] | None:
    """Return how far a run is; None if its folder does not say."""
    told = read_progress(place.path)
    if told is None:
        return None
    try:
        facts = {**told, **summary(told), "id": place.id, "folder": place.path.name}
        facts["state"] = str(told.get("state", "not said"))
        facts |= _time_left(facts, now or datetime.now(UTC))
        facts["names"] = sorted({n for step in facts["steps"] for n in step["parties"]})
    except (TypeError, ValueError, KeyError, AttributeError):
        return {"id": place.id, "folder": place.path.name, "fault": "its file is not a run's."}
    return facts


def _time_left(facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Say how long answers are still waited for, and whether the run has fallen silent."""
    state = facts["state"]
    over = state.startswith(("released", "failed", "left out"))
    at = datetime.fromisoformat(str(facts["at"])) if facts.get("at") else None
    silent = not over and at is not None and (now - at).total_seconds() > _SILENT_SECONDS
    left = None
    waiting = [one for one in facts["steps"] if _waits(one)]
    if waiting and not over and waiting[-1].get("until"):
        until = datetime.fromisoformat(str(waiting[-1]["until"]))
        left = max(0, round((until - now).total_seconds()))
    return {"over": over, "silent": silent and facts["role"] == "coordinator", "left": left}


def _waits(step: Mapping[str, Any]) -> bool:
    return any(one.get("state") == "asked" for one in step["parties"].values())


def last_lines(folder: Path) -> list[str]:
    """Return the end of a coordinator's log, if it has one."""
    try:
        # No link is followed: a folder from elsewhere must not show files of this machine.
        handle = os.open(folder / "flower.log", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            text = file.read(_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return text.splitlines()[-_LAST_LINES:]


async def changes(
    place: Place, page: Callable[[], str], gone: Callable[[], Any]
) -> AsyncIterator[str]:
    """Yield server-sent events: the run's part of the page whenever its file has changed."""
    seen: object = None
    silence = 0
    while not await gone():
        now = state_of(place.path / STATUS, place.path / "flower.log")
        silence += 1
        if now != seen:
            seen, silence = now, 0
            text = await asyncio.to_thread(page)
            data = "".join(f"data: {line}\n" for line in text.splitlines())
            yield f"event: run\n{data}\n"
        elif silence >= _SILENCE_TICKS:
            silence = 0
            yield ": nothing new\n\n"
        await asyncio.sleep(_TICK_SECONDS)


def metrics(counts: Mapping[str, int], runs: Iterable[Mapping[str, Any]], refused: int) -> str:
    """Return counts in Prometheus' text form; no names, no prices, nothing about data."""
    lines = []
    for name, value in {**counts, "requests_refused_total": refused}.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# TYPE confrere_{name} {kind}", f"confrere_{name} {value}"]
    by_role: Counter[tuple[str, str]] = Counter()
    parties: Counter[str] = Counter()
    for run in runs:
        state = "released" if run["state"] == "released" else "failed" if run["over"] else "running"
        by_role[run["role"], state] += 1
        if run["role"] == "coordinator":
            parties.update(run["counts"])
    lines.append("# TYPE confrere_runs gauge")
    for role in ("coordinator", "party"):
        for state in ("running", "released", "failed"):
            labels = f'role="{role}",state="{state}"'
            lines.append(f"confrere_runs{{{labels}}} {by_role[role, state]}")
    lines.append("# TYPE confrere_run_parties gauge")
    for state in ("connected", "asked", "answered", "paid", "dropped"):
        lines.append(f'confrere_run_parties{{state="{state}"}} {parties[state]}')
    return "\n".join(lines) + "\n"
