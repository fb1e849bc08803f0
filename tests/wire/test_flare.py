"""Every method on stock NVIDIA FLARE: the bytes of study and line, and nobody's code but ours."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from confrere.catalogue import CATALOGUE
from confrere.errors import EngineFailed
from confrere.ledger import Ledger
from confrere.release import load_rehearsal
from confrere_federation.engines.flare_site import ADMIN, check_site, project_files, switch
from confrere_federation.progress import read_progress
from confrere_federation.studies.running import make_approval
from confrere_federation.studies.study_file import TABLE1, Home, read_local
from tests.contracts.test_doors import card_of
from tests.contracts.test_engines import PARTIES, make_example, run_between, run_here, set_up
from tests.wire.deployment import free_ports
from tests.wire.homes import DATASET, moved_home

HOST = "localhost"
OWN = "local/resources.json"
SWITCHES = {
    "class_allow_list": (OWN, {"class_allow_list": ["*"]}),
    "class_list_enforcement_mode": (OWN, {"class_list_enforcement_mode": "warn"}),
    "allow_log_streaming": (OWN, {"allow_log_streaming": True}),
    "require_signed_jobs": ("startup/fed_client.json", {"require_signed_jobs": False}),
    "permissions": ("local/authorization.json", {"permissions": {"project_admin": "any"}}),
    "uri_root": (OWN, {"components": ["/tmp/nvflare/jobs"]}),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_site_that_might_run_anything_else_does_not_begin(tmp_path, name):
    for folder, file in (("local", "resources.json.default"), ("startup", "fed_client.json")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text('{"require_signed_jobs": true, "other": 1}')
    switch(tmp_path)
    check_site(tmp_path, server=False)
    file, change = SWITCHES[name]
    path = tmp_path / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(EngineFailed, match=name):
        check_site(tmp_path, server=False)
    path.unlink()
    with pytest.raises(EngineFailed, match=path.name):
        check_site(tmp_path, server=False)


def test_the_one_who_submits_has_a_name_that_flare_takes():
    assert re.fullmatch(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}", ADMIN)


def foreign_class(job):
    file = job / "app/config/config_fed_client.json"
    told = json.loads(file.read_text())
    evil = {"path": "subprocess.Popen", "args": {"args": ["touch", str(job / "owned")]}}
    told["executors"][0]["executor"] = evil
    file.write_text(json.dumps(told))


def foreign_code(job):
    (job / "app/custom").mkdir()
    (job / "app/custom/evil.py").write_text(f"open({str(job / 'owned')!r}, 'w')")


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


class Consortium:
    """A server, a client at every party and somebody who submits: provisioned, and left running.

    The folder that a site was told is a link, which is set to each study's in turn.
    """

    def __init__(self, folder, parties=PARTIES, path=""):
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        self.folder, self.running = folder, []
        (port,) = free_ports(1)
        write(folder, project_files("doors", parties, HOST, port))
        words = [sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml"]
        subprocess.run([*words, "-w", "made"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (made,) = (folder / "made").glob("*/prod_00")
        (folder / "now").mkdir()
        for site in (HOST, *parties):
            switch(made / site)
            own = {
                "PYTHONPATH": f"{path}:{os.environ.get('PYTHONPATH', '')}",
                "CONFRERE_FLARE": str(folder / "now" / site),
                # Every study's own, as its homes are: it knows whose ledger counts a table.
                "CONFRERE_WITNESS": str(folder / "now" / site / "witness"),
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            }
            script = ["bash", str(made / site / "startup/sub_start.sh")]
            with (folder / f"{site}.log").open("wb") as log:
                more = {"stdout": log, "stderr": log, "start_new_session": True}
                self.running.append(subprocess.Popen(script, env=os.environ | own, **more))
        while "Server started" not in (folder / f"{HOST}.log").read_text():
            time.sleep(1)  # who connects before waits for ever
        self.admin = None
        self.enter = lambda: new_secure_session(ADMIN, str(made / ADMIN), timeout=10)
        while len(self.say("get_system_info").client_info) < len(parties):
            time.sleep(1)

    def say(self, command, *words, tries=60):
        """Have a command of FLARE's carried out; on a busy machine its session may have ended."""
        try:
            self.admin = self.admin or self.enter()
            return getattr(self.admin, command)(*words)
        except Exception:
            if tries == 1:
                raise
        with suppress(Exception):
            self.admin.close()
        self.admin = None
        time.sleep(2)
        return self.say(command, *words, tries=tries - 1)

    def close(self):
        with suppress(Exception):
            self.admin.close()
        for process in self.running:  # jobs have sessions of their own, and would go on for ever
            for one in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            os.killpg(process.pid, signal.SIGKILL)

    def deal_out(self, study, folder):
        """Give every site what it has of a study, with its approval; return the job."""
        payers = [party.name for party in study.payers]
        write(folder / "made", project_files(study.id, payers, HOST, 1))
        for site in (HOST, *PARTIES):
            place = folder / "sites" / site
            shutil.copytree(folder / "local", place)
            for file in ("study.toml", "coordinator.key"):
                shutil.copy(folder / file, place)
            if site == HOST:
                shutil.copy(folder / "public.csv", place / "auxiliary.csv")
            else:
                shutil.copy(folder / "public.csv", place.parent)
                local = moved_home(folder / "homes" / site, place / f"{site}.toml")
                shutil.copy(place / "study.toml", local.parent)
                place = local.parent
            if site in payers:
                local = read_local(place / "local.toml")
                approval = make_approval(study, local, approved_by="the officer", reason="a test")
                (place / "approval.json").write_bytes(approval.document(local.key_path))
            link = self.folder / "now" / site
            link.unlink(missing_ok=True)
            link.symlink_to(place)
        return folder / "made/job"

    def ended(self, job, tries=1):
        """Submit a job and return how it ended.

        A server gives a site ten seconds to take a job in, and nobody can set that: a busy machine
        may take longer, and then the job is submitted again.
        """
        for _ in range(tries):
            number = self.say("submit_job", str(job))
            self.wait(number)
            status = self.status(number)
            if status == "FINISHED:COMPLETED":
                break
            print(self.say("get_job_meta", number), self.logs())  # noqa: T201
        return status

    def wait(self, number):
        while not self.status(number).startswith(("FINISHED", "FAILED", "ABANDONED")):
            time.sleep(1)

    def status(self, number):
        return self.say("get_job_meta", number)["status"]

    def logs(self):
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text()[-3000:]}" for file in files)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return make_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    pytest.importorskip("nvflare")
    made = Consortium(tmp_path_factory.mktemp("flare"))
    yield made
    made.close()


def home_of(folder, name):
    return Home(folder / "homes" / name)


def state_of(folder, name):
    return read_progress(home_of(folder, name).studies / "study" / "confrere-party")["state"]


def entries_of(folder, name):
    path = home_of(folder, name).ledger_of(DATASET)
    return Ledger(path).entries() if path.exists() else []


slow = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


class TestOnFlare:
    pytestmark = slow

    @pytest.mark.parametrize("method", CATALOGUE.values(), ids=CATALOGUE)
    def test_study_line_and_flare_open_on_the_same_model(
        self, example, tmp_path, consortium, method
    ):
        _, here = run_here(example, tmp_path / "here", method)
        _, there = run_between(example, tmp_path / "there", method)
        folder = tmp_path / "by-flare"
        study = set_up(example, folder, method, "flare")
        assert consortium.ended(consortium.deal_out(study, folder), 3) == "FINISHED:COMPLETED"
        for one, other in zip(here, there.made, strict=True):
            place = folder / f"sites/{HOST}/confrere-out/{study.id}/{one.name}"
            for file in ("model.json", *(["model.bin"] if (place / "model.bin").exists() else [])):
                assert (place / file).read_bytes() == (there.folders[one.name] / file).read_bytes()
            release = load_rehearsal(place)
            assert release.model.to_dict() == one.release.model.to_dict()
            assert card_of(release) == card_of(one.release) == card_of(other.release)
        for party in study.payers:
            assert state_of(folder, party.name) == "released"
            assert len(entries_of(folder, party.name)) == 1

    @pytest.mark.parametrize("trust", ["own noise", "sum"])
    def test_a_table_is_the_same_on_flare_and_signed(self, example, tmp_path, consortium, trust):
        how = {"named": f'name = "table1"\ntrust = "{trust}"'}
        _, (one,) = run_here(example, tmp_path / "here", TABLE1, **how)
        _, there = run_between(example, tmp_path / "there", TABLE1, **how)
        folder = tmp_path / "by-flare"
        study = set_up(example, folder, TABLE1, "flare", **how)
        assert consortium.ended(consortium.deal_out(study, folder), 3) == "FINISHED:COMPLETED"
        place = folder / f"sites/{HOST}/confrere-out/{study.id}/{study.id}"
        made = (place / "rehearsal.csv").read_bytes()
        assert made == (there.folders[study.id] / "rehearsal.csv").read_bytes()
        assert one.table.estimates_ == there.made[0].table.estimates_
        for name in PARTIES:
            assert state_of(folder, name) == "released"
            assert len(entries_of(folder, name)) == 1

    @pytest.mark.parametrize("change", [foreign_class, foreign_code])
    def test_a_job_with_others_code_is_refused(self, example, tmp_path, consortium, change):
        folder = tmp_path / "by-flare"
        study = set_up(example, folder, CATALOGUE["average"], "flare")
        job = consortium.deal_out(study, folder)
        change(job)
        assert consortium.ended(job) != "FINISHED:COMPLETED"
        assert not (job / "owned").exists()
        for name in PARTIES:
            assert not entries_of(folder, name)
