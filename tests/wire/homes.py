"""Homes of organisations, as kits that were opened leave them."""

import json
import shutil
import tomllib
from pathlib import Path

from confrere.release.signing import fingerprint, generate_key, read_private_key
from confrere_federation.kits import make_kits, make_request, open_kit
from confrere_federation.studies.study_file import Home, open_home, read_study

DATASET = "checkups"


def home_for(folder: Path, local: Path) -> Home:
    """Make a home for what a local file says: its policy, its peers, its table."""
    told, home = tomllib.loads(local.read_text()), open_home(folder)
    write_table(home.folder / "policy.toml", told["policy"])
    if "peers" in told:
        write_table(home.peers_file, told["peers"], "[peers]\n")
    home.add(DATASET, local.parent / told.get("data_path", f"{told['party']}.csv"), None)
    return home


def moved_home(folder: Path, local: Path) -> Path:
    """Write a local file anew, in a study's folder of a home; return it there."""
    home, told = home_for(folder, local), tomllib.loads(local.read_text())
    facts = {"party": told["party"], "dataset": DATASET, "coordinator": told["coordinator"]}
    for key in ("key_path", "auxiliary_path"):
        if key in told:
            facts[key] = str((local.parent / told[key]).resolve())
    place = home.studies / "study"
    place.mkdir()
    write_table(place / "local.toml", facts)
    return place / "local.toml"


def open_kits(folder: Path, parties, *, port: int) -> dict[str, Path]:
    """Deal out kits of ``folder/study.toml``; return everybody's folder of the study.

    A party's home is ``folder/<name>``, with what ``folder/local/<name>.toml`` says; the
    coordinator's folder is ``folder/coordinator``. All have compared their fingerprints.
    """
    requests, homes = [], {}
    for name in parties:
        homes[name] = home_for(folder / name, folder / f"local/{name}.toml")
        requests.append(make_request(homes[name].keys, name))
    key, place = folder / "coordinator.key", folder / "coordinator"
    own, content = fingerprint(generate_key(key)), (folder / "study.toml").read_bytes()
    where = {"host": "127.0.0.1", "port": port}
    kits = make_kits(content, requests, read_private_key(key), folder / "kits", **where)
    for kit in kits:
        open_kit(kit, homes[kit.stem].folder if kit.stem in homes else place, own)
    shutil.copy(key, place)
    study = read_study(place / "study.toml")
    (folder / "study.toml").write_bytes(study.content)
    prints = {one.party: one.fingerprint for one in requests}
    for home in homes.values():
        write_table(home.peers_file, prints, "[peers]\n")
    return {name: home.studies / study.id for name, home in homes.items()}


def write_table(path: Path, facts: dict, head: str = "") -> None:
    path.write_text(head + "".join(f"{k} = {json.dumps(v)}\n" for k, v in facts.items()))
