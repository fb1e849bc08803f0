"""A study on stock NVIDIA FLARE: the bytes that Python has, and nobody's code but ours."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from confrere.errors import EngineFailed
from confrere.release import load_rehearsal
from confrere_federation.engines.flare_site import ADMIN, check_site, project_files, switch
from confrere_federation.studies import make_grant, read_local
from tests.scenarios.deployment import PARTIES, Deployment, free_ports

HOST = "localhost"
SWITCHES = {
    "class_allow_list": ("local/resources.json", {"class_allow_list": ["*"]}),
    "class_list_enforcement_mode": (
        "local/resources.json",
        {"class_list_enforcement_mode": "warn"},
    ),
    "allow_log_streaming": ("local/resources.json", {"allow_log_streaming": True}),
    "require_signed_jobs": ("startup/fed_client.json", {"require_signed_jobs": False}),
    "permissions": ("local/authorization.json", {"permissions": {"project_admin": "any"}}),
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


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
def test_three_parties_on_flare_give_what_python_gives(tmp_path):
    pytest.importorskip("nvflare")
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    here = Deployment(tmp_path, seeded=True, changes={'engine = "line"': 'engine = "flare"'})
    (port,) = free_ports(1)
    for name, content in project_files(here.study.id, PARTIES, HOST, port).items():
        (tmp_path / "flare" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "flare" / name).write_bytes(content)
    words = [sys.executable, "-m", "nvflare.cli", "provision", "-p", "project.yml", "-w", "made"]
    subprocess.run(words, cwd=tmp_path / "flare", check=True, stdout=subprocess.DEVNULL)
    (made,) = (tmp_path / "flare/made").glob("*/prod_00")
    running = []
    try:
        for site in (HOST, *PARTIES):
            folder = tmp_path / "sites" / site
            shutil.copytree(tmp_path / "local", folder)
            for file in ("study.toml", "coordinator.key"):
                shutil.copy(tmp_path / file, folder)
            if site != HOST:
                local = read_local((folder / f"{site}.toml").rename(folder / "local.toml"))
                grant = make_grant(here.study, local, approved_by="the officer", reason="a test")
                (folder / "grant.json").write_bytes(grant.document(local.key_path))
            switch(made / site)
            own = {
                "CONFRERE_FLARE": str(folder),
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            }
            script = ["bash", str(made / site / "startup/sub_start.sh")]
            running.append(subprocess.Popen(script, env=os.environ | own, start_new_session=True))
        for _ in range(60):
            try:
                admin = new_secure_session(ADMIN, str(made / ADMIN), timeout=10)
                break
            except Exception:  # not there yet
                time.sleep(2)
        while len(admin.get_system_info().client_info) < len(PARTIES):
            time.sleep(1)

        def ended(job):
            number = admin.submit_job(str(job))
            admin.monitor_job(number, timeout=300)
            return admin.get_job_meta(number)["status"]

        assert ended(tmp_path / "flare/job") == "FINISHED:COMPLETED"
        for change in (foreign_class, foreign_code):
            job = tmp_path / change.__name__
            shutil.copytree(tmp_path / "flare/job", job)
            change(job)
            assert ended(job) != "FINISHED:COMPLETED"
            assert not (job / "owned").exists()
        admin.close()
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
    release = load_rehearsal(tmp_path / f"sites/{HOST}/confrere-out/diabetes-2026/diabetes-2026")
    np.testing.assert_array_equal(release.model.coef[0], here.released_in_python())
    for name in PARTIES:
        assert here.status(f"sites/{name}/confrere-party")["state"] == "released"
