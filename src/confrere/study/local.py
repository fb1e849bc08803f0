"""A party's local file, never shared: where its data, key and ledger lie, and what it allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from confrere.errors import InvalidParameter, OperationRefused, StudyError
from confrere.guarantee import Neighbours, Unit
from confrere.release import read_public_key
from confrere.study.study import Study
from confrere.study.tables import Table, parse, read_bytes


@dataclass(frozen=True)
class LocalPolicy:
    """What a party allows, whatever a study says: ``[policy]``.

    Attributes
    ----------
    protects : Unit
        Whose data must be hidden: a study that says otherwise is not answered.
    relation : Neighbours
        Against which change.
    operations : tuple of str or None
        The only operations that it answers in a federation; None allows whatever is installed.
    max_epsilon_per_run : float or None
        The most that one run may spend.
    lifetime_epsilon : float or None
        The most that may ever be spent on its data.
    """

    protects: Unit
    relation: Neighbours
    operations: tuple[str, ...] | None = None
    max_epsilon_per_run: float | None = None
    lifetime_epsilon: float | None = None

    def check(self, study: Study, party: str) -> None:
        """Refuse a study that asks for what is not allowed, or protects others."""
        allowed = self.operations
        refused = [o for o in study.method.operations if allowed is not None and o not in allowed]
        if refused:
            raise OperationRefused(
                f"{party}: its policy does not allow {', '.join(refused)}; nothing was spent."
            )
        if (self.protects, self.relation) != (study.promise.protects, study.promise.relation):
            raise OperationRefused(
                f"{party}: its policy protects a {self.protects} under {self.relation}, the study "
                f"a {study.promise.protects} under {study.promise.relation}; nothing was spent.",
                "relation",
            )


@dataclass(frozen=True)
class Local:
    """One party's own side.

    Attributes
    ----------
    party : str
    ledger_path : Path
        Made when it is first charged.
    data_path : Path or None
        Its table.
    key_path : Path or None
        The private key that it signs with.
    policy : LocalPolicy or None
        None for a party without a local file, whose table was given by hand.
    coordinator : str or None
        The public key whose questions it answers: ``ssh-ed25519 AAAA...``.
    """

    party: str
    ledger_path: Path
    data_path: Path | None = None
    key_path: Path | None = None
    policy: LocalPolicy | None = None
    coordinator: str | None = None


def read_local(path: str | Path) -> Local:
    """Read a local file; its paths are relative to it."""
    file = Path(path)
    top = parse(read_bytes(file, "the local file"), "the local file")
    party = top.identifier("party")
    local = Local(
        party=party,
        ledger_path=_path(file, top.text("ledger_path", None)) or file.parent / f"{party}.ledger",
        data_path=_path(file, top.text("data_path", None)),
        key_path=_path(file, top.text("key_path", None)),
        policy=_policy(top.table("policy")),
        coordinator=_key(top),
    )
    top.done()
    return local


def gather_locals(
    study: Study,
    study_path: Path,
    paths: Sequence[Path] = (),
    *,
    data: Mapping[str, Path] | None = None,
    keys: Mapping[str, Path] | None = None,
    ledger: Path | None = None,
) -> dict[str, Local]:
    """Return the parties that live here, by name, in the study's order.

    Parameters
    ----------
    study : Study
    study_path : Path
        Its file: without ``paths``, ``local.toml`` and ``local/*.toml`` beside it are taken.
    paths : sequence of Path
        Local files, or folders of them.
    data, keys : mapping of party to Path, optional
        Stand before the files' own; a party named in ``data`` needs no local file.
    ledger : Path, optional
        One ledger for all, before the files' own.
    """
    found: dict[str, Local] = {}
    for path in _files(study_path, paths):
        local = read_local(path)
        study.party(local.party)
        if local.party in found:
            raise StudyError(f"party: {local.party!r} has two local files.")
        found[local.party] = local
    for party in {**(data or {}), **(keys or {})}:
        study.party(party)
    for party, path in (data or {}).items():
        own = found.get(party, Local(party, study_path.parent / f"{party}.ledger"))
        found[party] = replace(own, data_path=path)
    for party, path in (keys or {}).items():
        if party in found:
            found[party] = replace(found[party], key_path=path)
    if ledger is not None:
        found = {name: replace(local, ledger_path=ledger) for name, local in found.items()}
    return {party.name: found[party.name] for party in study.parties if party.name in found}


def _files(study_path: Path, paths: Sequence[Path]) -> list[Path]:
    if not paths:
        beside = study_path.parent
        paths = [path for path in (beside / "local.toml", beside / "local") if path.exists()]
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.glob("*.toml"))
            if not inside:
                raise StudyError(f"local: the folder {path.name!r} holds no .toml file.")
            files += inside
        else:
            files.append(path)
    return files


def _path(file: Path, text: str | None) -> Path | None:
    return None if text is None else file.parent / Path(text).expanduser()


def _key(top: Table) -> str | None:
    line: str | None = top.text("coordinator", None)
    try:
        _ = None if line is None else read_public_key(line)
    except InvalidParameter:
        raise top.error("coordinator", "must be a line 'ssh-ed25519 AAAA...'") from None
    return line


def _policy(table: Table) -> LocalPolicy:
    policy = LocalPolicy(
        protects=Unit(table.choice("protects", tuple(Unit))),
        relation=Neighbours(table.choice("relation", tuple(Neighbours))),
        operations=table.texts("operations", None),
        max_epsilon_per_run=table.number("max_epsilon_per_run", None),
        lifetime_epsilon=table.number("lifetime_epsilon", None),
    )
    table.done()
    return policy
