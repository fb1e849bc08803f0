"""Folders of an organisation with invented patients: what the dashboard is shown in tests."""

import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confrere.files import write_whole
from confrere.kernel import ledger as chain
from confrere.kernel.guarantee import Guarantee
from confrere.ledger import ChargeApproval, Ledger
from confrere_federation.parties.federation import RunSteps
from confrere_federation.parties.messages import Payload
from confrere_federation.progress import Progress
from confrere_federation.studies.running import CoordinatorSession, approve_study, party_session
from confrere_federation.studies.study_file import gather_locals, read_study
from tests.examples import write_plain_example
from tests.wire.signed_run import Loopback, name_keys

NAMES = ("main", "branch-1", "branch-2")
WORDS = {
    "name": "A. Reuter, data protection",
    "reason": "board of 12 May",
    "justification": "the least at which the screening finds more than chance",
}


@dataclass(frozen=True)
class World:
    """Where everything lies."""

    root: Path

    @property
    def party(self) -> Path:
        return self.root / "main"

    @property
    def study(self) -> Path:
        return self.party / "study.toml"

    @property
    def ledger(self) -> Path:
        return self.party / "main.ledger"

    @property
    def release(self) -> Path:
        return self.party / "releases" / "diabetes-2026"

    @property
    def live(self) -> Path:
        return self.root / "coordinator"


def poison(study: Path, payload: str) -> None:
    """Write a payload wherever a study has words of somebody's."""
    quoted = payload.replace("\\", "\\\\").replace('"', '\\"')
    text = study.read_text()
    for key, old in (("title", ".*"), ("purpose", ".*"), ("unit", "patient")):
        text = re.sub(rf'{key} = "{old}"', lambda _, key=key: f'{key} = "{quoted}"', text)
    text = text.replace("[data]\n", f'justification = "{quoted}"\n\n[data]\n')
    text = text.replace('column = "diabetes"', f'column = "label {quoted}"')
    text = text.replace("smoker = {", f'"{quoted}" = {{').replace('"never"', f'"{quoted}"')
    study.write_text(text)


def build(root: Path) -> World:
    """Make an organisation: two earlier years, a release that was paid for, a study that waits."""
    world = World(root)
    aside = root / "elsewhere"
    aside.mkdir(parents=True)
    write_plain_example(aside)
    _between_machines(aside)
    with _year(2024):
        ledger = Ledger(aside / "local" / "main.ledger")
        ledger.open_account(
            "main/checkups-2010", epsilon=2.0, period="year", reason="the board's rule of 2024"
        )
        _earlier(ledger, 0.4, "a first count")
    with _year(2025):
        _earlier(ledger, 0.7, "a first model")
    run_all(aside, aside)
    _settle(aside, world)
    _live(world)
    return world


def _between_machines(place: Path) -> None:
    path = place / "study.toml"
    text = path.read_text().replace('engine = "local"', 'engine = "line"')
    path.write_text(text.replace("epsilon = 1.0   ", "epsilon = 0.5   "))
    name_keys(place)


def run_all(place: Path, out: Path, files=None, **approved: Path):
    """Let all parties answer a study; who has not approved it approves it as it always does."""
    study, sessions = read_study(place / "study.toml"), {}
    for name, local in gather_locals(study, place / "study.toml", files).items():
        approval = approved.get(name, place / f"approval-{name}.json")
        if name not in approved:
            approve_study(study, local, key=place / f"local/{name}.key", approval=approval, **WORDS)
        sessions[name] = party_session(study, local, approval=approval, out=out / "had" / name)
    (out / "c").mkdir(parents=True)
    where = {"key": place / "coordinator.key", "folder": out / "c", "out": out / "out"}
    return CoordinatorSession(study, carrier=Loopback(sessions), **where).run()


def _settle(aside: Path, world: World) -> None:
    """Put what is the party's own into its folder, and the next version of the study."""
    world.party.mkdir()
    shutil.copytree(aside / "out" / "diabetes-2026", world.release)
    local = (aside / "local" / "main.toml").read_text()
    (world.party / "local.toml").write_text(local)
    books = ("main.csv", "main.ledger", "main.ledger.main.answers")
    for name in (*books, "main.key", "main.key.pub"):
        shutil.move(aside / "local" / name, world.party / name)
    shutil.move(aside / "approval-main.json", world.party / "approval.json")
    text = (aside / "study.toml").read_text()
    text = text.replace("epsilon = 0.5   ", "epsilon = 1.0   ")
    text = text.replace("max_rows_per_unit = 1 ", "max_rows_per_unit = 2 ")
    world.study.write_text(text)
    shutil.move(aside, world.root / ".elsewhere")
    # It lies elsewhere now, on its owner's word.
    from confrere.ledger import reset_witness

    reset_witness(world.ledger, reason="moved to the party's own folder")


def _live(world: World) -> None:
    """Leave a coordinator in the middle of a run."""
    world.live.mkdir()
    steps = RunSteps()
    steps.asked("size", 0, NAMES, 600)
    steps.ended("size", 0, dict.fromkeys(NAMES, Payload()))
    steps.asked("objective", 0, NAMES, 600)
    found = steps.to_list()
    found[1]["parties"]["main"] = {"state": "answered", "epsilon": 0.5, "row": 7}
    told = {"study": "ab" * 32, "study_id": "diabetes-2026"}
    where = {"main": "answered", "branch-1": "asked", "branch-2": "gone"}
    progress = Progress(world.live, **told)
    progress.say("asked: branch-1; gone: branch-2", parties=where, steps=found)
    write_whole(world.live / "line.log", b"12:00:01 line: a stranger was turned away\n")


def _earlier(ledger: Ledger, epsilon: float, purpose: str) -> None:
    said = ChargeApproval(
        "A. Reuter, data protection", "a pilot", f"{datetime.now(UTC).isoformat()[:19]}Z", "little"
    )
    paid = ledger.charge("main/checkups-2010", Guarantee(epsilon), purpose=purpose, approval=said)
    ledger.mark_released(paid)


@contextmanager
def _year(year: int):
    """Let the ledger take another year for this one."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(year, 5, 12, 9, tzinfo=UTC)

    before = chain.datetime
    chain.datetime = Clock
    try:
        yield
    finally:
        chain.datetime = before
