"""Who the others in a study are: established by people of the party, and by nobody else.

Where answers are added up, a party is hidden among the others. Names and keys come from whoever
wrote the study, who could have made up all of them; so a party takes part in a sum once its own
people have compared enough of the fingerprints with those who hold the keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confrere.errors import StudyError
from confrere.files import write_whole
from confrere.mechanisms.secure_sum import fewest_of
from confrere.release.signing import fingerprint
from confrere.study.home import home_of
from confrere.study.local_file import Local, read_local
from confrere.study.study_file import Study
from confrere.study.typed_files import parse_toml

_HEADER = re.compile(r"^[ \t]*\[peers\][ \t]*(#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """Another party of a study, and whether the local file confirms its key."""

    name: str
    fingerprint: str
    confirmed: bool


def peers_of(study: Study, local: Local) -> list[Peer]:
    """Return the others whose answers a run uses.

    Raises
    ------
    StudyError
        If the study names another key than the one that the party has confirmed.
    """
    found = []
    for party in study.payers:
        if party.name == local.party or party.key is None:
            continue
        print_, known = fingerprint(party.key), local.peers.get(party.name)
        if known not in (None, print_):
            raise StudyError(
                f"peers: the study names another key for {party.name} than the one that was "
                "confirmed. Ask that organisation by telephone; if it has a new key, correct "
                "[peers], in the local file or the home's peers.toml."
            )
        found.append(Peer(party.name, print_, known is not None))
    return found


def check_peers(study: Study, local: Local) -> None:
    """Refuse a study that adds up where too few of the others are known; nothing was spent."""
    peers = peers_of(study, local)
    unknown = [peer.name for peer in peers if not peer.confirmed]
    lacking = study.peers_needed - (len(peers) - len(unknown))
    if lacking > 0:
        raise StudyError(
            f"peers: the study adds up what parties send, and hides {local.party} among the "
            f"others; {lacking} more of them must be known to be who they are: "
            f"{', '.join(unknown[:5])}{', ...' if len(unknown) > 5 else ''}. Compare fingerprints "
            "with each by telephone, then: confrere approve STUDY --peer NAME=SHA256:..."
        )


def peer_lines(study: Study, local: Local) -> list[str]:
    """Say to an approver who the others are, and in a sum what a party that is lost costs."""
    peers = peers_of(study, local)
    lines = [
        f"{peer.name}: {peer.fingerprint}, {'confirmed' if peer.confirmed else 'NOT CONFIRMED'}"
        for peer in peers
    ]
    if study.peers_needed:
        lines.append(
            f"Parties add up: at least {study.peers_needed} of these {len(peers)} must be "
            f"confirmed by you. {_lost(study)}"
        )
    return lines


def _lost(study: Study) -> str:
    count = len(study.payers)
    fewest = fewest_of(count, study.quorum_of_sums)
    if fewest == count:
        return (
            f"All {count} parties are needed: one that is lost, or lies, ends the run, and what "
            "was paid is gone."
        )
    return f"A party may be lost: a run goes on with {fewest} of {count}, in the tries it paid for."


def confirm_peers(study: Study, path: Path, told: Mapping[str, str]) -> Local:
    """Write fingerprints that people have compared into ``[peers]`` of a local file.

    In a home they go into its ``peers.toml``: the next study finds them confirmed.

    Parameters
    ----------
    study : Study
        Whose keys are meant.
    path : Path
        The local file.
    told : mapping of party to fingerprint
        As each of them said it.
    """
    local = read_local(path)
    lines = ""
    known = {peer.name: peer for peer in peers_of(study, local)}
    for name, said in told.items():
        study.party(name)
        if name not in known:
            raise StudyError(f"--peer: {name} is this party itself, or has no key in the study.")
        if known[name].fingerprint != said.strip():
            raise StudyError(
                f"--peer: the study has another key for {name} than the one of this fingerprint. "
                "Do not approve it; ask both that organisation and the coordinator."
            )
        if not known[name].confirmed:
            lines += f"{json.dumps(name)} = {json.dumps(said.strip())}\n"
    if not lines:
        return local
    home = None if local.dataset is None else home_of(path)
    file = path if home is None else home.peers_file
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    header = _HEADER.search(text)
    if header is None:
        text = f"{text.rstrip()}\n\n# Whose keys were compared by telephone.\n[peers]\n{lines}"
    else:
        text = f"{text[: header.end()]}\n{lines.rstrip()}{text[header.end() :]}"
    draft = file.with_name(f".{file.name}.peers")
    write_whole(draft, text.encode())
    try:
        # What a hand has written may not take another table.
        read_local(draft) if home is None else parse_toml(text.encode(), file.name)
    except StudyError:
        draft.unlink()
        raise StudyError(
            f"--peer: {file.name} cannot be added to; write into its [peers]: {lines.strip()}"
        ) from None
    draft.replace(file)
    return read_local(path)
