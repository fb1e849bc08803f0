"""A party's local file, never shared: where its data, key and ledger lie, and what it may spend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from confrere.errors import OperationRefused, StudyError
from confrere.guarantee import Neighbours, Unit
from confrere.ledger import Decision, LedgerReader
from confrere.rows.row_tables import RowTable, Sql, open_table
from confrere.study.home import FilePath, Query, home_of
from confrere.study.own_classifier import OwnClassifier
from confrere.study.study_file import Study
from confrere.study.study_trust import trust_of
from confrere.study.typed_files import (
    Digest,
    Fingerprint,
    Name,
    Positive,
    PublicKeyLine,
    Table,
    Text,
    parse_toml,
    read_bytes,
)
from confrere.trust import OWN_NOISE, Trust


class LocalPolicy(Table):
    """What a party allows, whatever a study says: ``[policy]``.

    Attributes
    ----------
    protects : Unit
        Whose data must be hidden: a study that says otherwise is not answered.
    relation : Neighbours
        Against which change.
    trust : Trust
        The weakest that it is content with: "own noise" by default, so that nobody else has to be
        trusted; "1 of 3" and the like for a sum, "coordinator" where one may see its answers.
    operations : list of str or None
        The only operations that it answers; None allows whatever is installed.
    max_epsilon_per_run : float or None
        The most that one run may spend.
    lifetime_epsilon : float or None
        The most that may ever be spent on its data, by all studies, whatever they call them.
    """

    protects: Annotated[Unit, Field(strict=False)]
    relation: Annotated[Neighbours, Field(strict=False)]
    trust: Annotated[Trust, BeforeValidator(Trust.parse)] = OWN_NOISE
    operations: list[Text] | None = None
    max_epsilon_per_run: Positive | None = None
    lifetime_epsilon: Positive | None = None

    def check(self, study: Study, party: str) -> None:
        """Refuse a study that asks for what is not allowed, or protects others."""
        allowed = self.operations
        refused = [o for o in study.operations if allowed is not None and o not in allowed]
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
        needed = trust_of(study)
        # In one process whoever runs it reads all tables: nothing is sent that a policy could hold.
        if study.engine != "local" and not self.trust.allows(needed):
            raise OperationRefused(
                f"{party}: its policy asks for {self.trust} ({self.trust.words}), the study needs "
                f"{needed} ({needed.words}); nothing was spent. Who wants that writes trust = "
                f'"{needed}" into its policy.',
                "trust",
            )


class Local(Table):
    """One party's own side.

    Attributes
    ----------
    party : str
    ledger_path : Path
        Made when it is first charged; ``<party>.ledger`` beside the local file by default.
    data_path : Path or None
        Its table: a CSV or Parquet file, or a folder of either.
    data : Query or None
        Its table, where it is a query to a database.
    engine : str or None
        Who reads the rows: "loop" (the default), "joblib", "dask" or a scheduler's address.
    key_path : Path or None
        The private key that it signs with.
    policy : LocalPolicy or None
        None for a party without a local file, whose table was given by hand.
    coordinator : str or None
        The public key whose questions it answers: ``ssh-ed25519 AAAA...``.
    auxiliary_path : Path or None
        Its copy of the public rows that a study names by their hash.
    classifier : OwnClassifier or None
        What votes for it, where a study has parties vote; logistic regression by default.
    peers : mapping of str to str
        Other parties' fingerprints, ``SHA256:...``, that people have compared with them.
    dataset : str or None
        Which of the data sets in the organisation's home: their table, ledger and the policy stand
        there, and every study of them adds up.
    unit_column, sha256 : str or None
        What the home says about that table.
    """

    party: Name
    ledger_path: FilePath
    data_path: FilePath | None = None
    data: Query | None = None
    engine: Text | None = None
    key_path: FilePath | None = None
    policy: LocalPolicy | None = None
    coordinator: PublicKeyLine | None = None
    auxiliary_path: FilePath | None = None
    classifier: OwnClassifier | None = None
    peers: dict[Name, Fingerprint] = Field(default_factory=dict)
    dataset: Name | None = None
    unit_column: Text | None = None
    sha256: Digest | None = None

    @property
    def has_table(self) -> bool:
        """Whether it says where its rows are."""
        return self.data_path is not None or self.data is not None

    def table(self) -> RowTable:
        """Return where its rows come from; nothing is read yet."""
        if self.data is not None and self.data_path is None:
            return Sql(self.data.connection, self.data.sql)
        if self.data_path is None:
            raise StudyError(
                f"data_path: the local file of {self.party} does not say where it lies."
            )
        if self.data is not None:
            raise StudyError(f"data: the local file of {self.party} has data_path too; keep one.")
        return open_table(self.data_path)


class LocalFile(Local):
    """A local file: in it, a party says what it allows."""

    policy: LocalPolicy


def read_local(path: str | Path) -> Local:
    """Read a local file; its paths are relative to it."""
    file = Path(path)
    values = parse_toml(read_bytes(file, "the local file"), "the local file")
    if isinstance(values.get("dataset"), str):
        values |= _from_home(values, file)
    elif "ledger_path" not in values and isinstance(values.get("party"), str):
        values["ledger_path"] = f"{values['party']}.ledger"
    return LocalFile.read(values, "the local file", folder=file.parent)


def _from_home(values: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return what the organisation's home says about the data set that a local file names."""
    told = ("data_path", "data", "ledger_path", "policy", "peers")
    twice = [key for key in told if key in values]
    if twice:
        raise StudyError(
            f"{twice[0]}: with a dataset the organisation's home says it, in datasets.toml, "
            "policy.toml or peers.toml; leave it out of the local file."
        )
    home = home_of(file)
    name = home.matched(values["dataset"])
    one = home.datasets()[name]
    return {
        "ledger_path": str(home.ledger_of(name)),
        "data_path": None if one.path is None else str(one.path),
        "data": None if one.data is None else one.data.model_dump(),
        "unit_column": one.unit_column,
        "sha256": one.sha256,
        "policy": home.policy(),
        "peers": home.peers(),
    }


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
        if local.unit_column not in (None, study.promise.unit_column):
            raise StudyError(
                f"privacy.unit_column: {local.party} counts by another column than the study; "
                "nothing was spent."
            )
        if local.party in found:
            raise StudyError(f"party: {local.party!r} has two local files.")
        found[local.party] = local
    for party in {**(data or {}), **(keys or {})}:
        study.party(party)
    for party, path in (data or {}).items():
        made = Local(party=party, ledger_path=study_path.parent / f"{party}.ledger")
        found[party] = found.get(party, made).model_copy(update={"data_path": path, "data": None})
    for party, path in (keys or {}).items():
        if party in found:
            found[party] = found[party].model_copy(update={"key_path": path})
    if ledger is not None:
        owned = [local.dataset for local in found.values() if local.dataset is not None]
        if owned:
            raise StudyError(f"--ledger: the data set {owned[0]} has one ledger, in its home.")
        found = {n: local.model_copy(update={"ledger_path": ledger}) for n, local in found.items()}
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


def standing_refusal(study: Study, local: Local) -> Decision | None:
    """Return the no to a study that stands in a party's ledger, if one does; no ledger is made."""
    if not local.ledger_path.is_file():
        return None
    return LedgerReader.look(local.ledger_path).refusal(study.sha256)
