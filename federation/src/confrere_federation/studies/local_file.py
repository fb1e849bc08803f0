"""A party's own side, never shared: its home, its data, its keys and peers, and what it allows.

**One home per organisation**: its keys and policy, its data sets by its own names, their ledgers. A
study calls a party's data what it likes; the party says which of its data sets they are. A data set
has one ledger, to which every study adds, whatever it calls the data and whenever it comes::

    keys/  peers.toml  policy.toml  datasets.toml  studies/<study>/
    ledgers/<data set>.ledger  snapshots/<data set>/

**A classifier of a party's own**, where a study has parties vote: whatever it has installed. All of
its data are protected together, whatever it computes of them. So its name stands in the party's
local file and never in a study, and it is imported and trained before anything is asked: code of
others may fail on anything, and then nothing is spent.

**Who the others are** is established by people of the party, and by nobody else. Where answers are
added up, a party is hidden among the others. Names and keys come from whoever wrote the study, who
could have made up all of them; so a party takes part in a sum once its own people have compared
enough of the fingerprints with those who hold the keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from confrere.data.tables import Dialect, RowTable, Sql, open_table
from confrere.errors import OperationRefused, StudyError
from confrere.files import write_new, write_whole
from confrere.kernel.guarantee import Unit
from confrere.ledger import Decision, LedgerReader
from confrere.methods.asking import fewest_of
from confrere.release.signing import fingerprint
from confrere.trust import OWN_NOISE, Trust
from confrere_federation.parties.snapshots import Snapshots
from confrere_federation.studies.study_file import (
    Digest,
    FileTable,
    Fingerprint,
    Name,
    Positive,
    PublicKeyLine,
    Relation,
    Study,
    Text,
    parse_toml,
    read_bytes,
    trust_of,
)

_POLICY, _DATASETS = "policy.toml", "datasets.toml"
_BEGINNINGS = {
    _POLICY: """\
# What this organisation allows, whatever a study says: the strictest limit wins.
protects = "record"                   # whose data must be hidden, and against which change;
relation = "replace-one"              # a study that says otherwise is not answered
# trust = "own noise"                 # the default: safe even if everybody else works together
max_epsilon_per_run = 1.0
lifetime_epsilon = 3.0                # for every data set, over all studies, for good
""",
    _DATASETS: """\
# This organisation's data sets, by its own names: confrere home --data NAME=FILE adds one.
# [checkups]
# path = "data/checkups.csv"          # or a folder; relative to this file
# data = { connection = "...", sql = "SELECT ..." }   # or a query, in place of path
# unit_column = "patient_id"          # a study that counts others than these is not answered
# sha256 = "..."                      # of a table that does not change
# snapshot = "2026-11"                # its state by your calendar: what is paid for stays as it was
""",
}
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def _beside(text: Path, info: ValidationInfo) -> Path:
    """Take a path of a file as relative to the file."""
    folder = (info.context or {}).get("folder")
    return text if folder is None else Path(folder) / text.expanduser()


FilePath = Annotated[Path, Field(strict=False), AfterValidator(_beside)]


Written = Annotated[Dialect, BeforeValidator(TypeAdapter(Dialect).validate_python)]


class Query(FileTable):
    """A table in a database: ``[data]``."""

    #: Its address; ``${NAME}`` in it stands for that environment variable, where secrets belong.
    connection: Text
    sql: Text  #: What to ask; with an ``ORDER BY`` rows come in the same order every time


class DataSet(FileTable):
    """One table of an organisation."""

    path: FilePath | None = None  #: A CSV or Parquet file, or a folder of either
    data: Query | None = None  #: The same, where it is a query to a database
    dialect: Written | None = None  #: How a file of text is written, if not as its first line says
    #: Whose rows they are: a study that counts other units is not answered.
    unit_column: Text | None = None
    sha256: Digest | None = None  #: Of a file that does not change
    snapshot: Name = "1"  #: What the organisation calls the state of its rows that is paid for now


class _DataSets(FileTable):
    named: dict[Name, DataSet]


@dataclass(frozen=True)
class Home:
    """An organisation's folder."""

    folder: Path

    @property
    def keys(self) -> Path:
        """The folder of its keys."""
        return self.folder / "keys"

    @property
    def studies(self) -> Path:
        """The folder of the studies that it takes part in."""
        return self.folder / "studies"

    def ledger_of(self, dataset: str) -> Path:
        """Return the one ledger of a data set."""
        return self.folder / "ledgers" / f"{dataset}.ledger"

    @property
    def peers_file(self) -> Path:
        """The file of other parties' fingerprints that people have compared."""
        return self.folder / "peers.toml"

    def peers(self) -> Any:
        """Return what it holds; nothing until somebody was confirmed."""
        if not self.peers_file.exists():
            return {}
        return parse_toml(read_bytes(self.peers_file, "peers.toml"), "peers.toml").get("peers", {})

    def policy(self) -> dict[str, Any]:
        """Return what ``policy.toml`` holds."""
        return parse_toml(read_bytes(self.folder / _POLICY, _POLICY), _POLICY)

    def datasets(self) -> Mapping[str, DataSet]:
        """Return its data sets, by the organisation's names.

        Raises StudyError if two names are for one table: a data set has one ledger.
        """
        told = parse_toml(read_bytes(self.folder / _DATASETS, _DATASETS), _DATASETS)
        found = _DataSets.read({"named": told}, _DATASETS, folder=self.folder).named
        seen: dict[object, str] = {}
        for name, one in found.items():
            if (one.path is None) == (one.data is None):
                raise StudyError(f"{_DATASETS}: {name} needs a path, or a query in data, not both.")
            table = one.data if one.path is None else one.path.resolve()
            for mark in (table, one.sha256):
                if mark is not None and seen.setdefault(mark, name) != name:
                    raise StudyError(
                        f"{_DATASETS}: {seen[mark]} and {name} are one table; a data set has one "
                        "name and one ledger, whatever studies call it."
                    )
        return found

    def matched(self, chosen: str | None) -> str:
        """Return which data set a study is about: the one that is named, or the only one."""
        known = self.datasets()
        listed = ", ".join(known) or "none yet"
        name = next(iter(known)) if chosen is None and len(known) == 1 else chosen
        if name is None or name not in known:
            raise StudyError(
                f"--dataset: say which of your data sets the study is about; there is: {listed}."
            ).hinting("name one: confrere home --data NAME=FILE --unit-column COLUMN")
        return name

    def add(self, name: str, table: Path, unit_column: str | None) -> None:
        """Give a table a name, for good."""
        try:
            _NAME.validate_python(name)
        except ValidationError:
            raise StudyError(
                "--data: a name is letters, digits, '.', '_' or '-', 64 at most."
            ) from None
        if name in self.datasets():
            raise StudyError(f"--data: there is a data set {name} already; see {_DATASETS}.")
        place = table.resolve()
        if not place.exists():
            raise StudyError(f"--data: there is no {table.name}.")
        within = place.is_relative_to(self.folder.resolve())
        path = place.relative_to(self.folder.resolve()) if within else place
        lines = [f"\n[{json.dumps(name)}]", f"path = {json.dumps(str(path))}"]
        lines += [] if unit_column is None else [f"unit_column = {json.dumps(unit_column)}"]
        file = self.folder / _DATASETS
        before = file.read_text(encoding="utf-8")
        file.write_text(before + "\n".join(lines) + "\n", encoding="utf-8")
        try:
            self.datasets()
        except StudyError:
            file.write_text(before, encoding="utf-8")
            raise


def home_folder() -> Path:
    """Return the organisation's home.

    What the environment variable ``CONFRERE_HOME`` names, or ``confrere`` in the user's data folder
    (``XDG_DATA_HOME``, or ``~/.local/share``).
    """
    chosen = os.environ.get("CONFRERE_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "confrere"


def home_of(file: Path) -> Home:
    """Return the home that a file lies in, or else the organisation's."""
    inside = (one for one in file.absolute().parents if (one / _DATASETS).is_file())
    return Home(next(inside, home_folder()))


def open_home(folder: Path) -> Home:
    """Return a home; what it lacks is made, for its owner alone, and nothing is written over."""
    home = Home(folder.absolute())
    try:
        for place in (home.folder, home.keys, home.folder / "ledgers", home.studies):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.folder.chmod(0o700)
        for name, text in _BEGINNINGS.items():
            if not (home.folder / name).exists():
                write_new(home.folder / name, text.encode())
    except OSError as error:
        raise StudyError(f"home: {folder} cannot be made ({error.strerror}).") from None
    return home


class OwnClassifier(FileTable):
    """``[classifier]`` of a local file."""

    #: ``package.module:Class`` of what has ``fit`` and ``predict``, as scikit-learn's have.
    name: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=200)]
    #: What it is made with.
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)

    def votes(
        self,
        # ``X``, ``y``: the party's encoded rows, and their labels -1 and +1, or codes of more
        # classes.
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        auxiliary: NDArray[np.float64],  # The study's public rows
        # How many labels are declared. Of two, what is returned says which rows are positive; of
        # more it holds codes.
        n_classes: int = 2,
    ) -> NDArray[np.bool_] | NDArray[np.int64]:
        """Train on a party's rows, and return what it takes the public rows for.

        Raises StudyError if there is no such classifier, or if it fails: to be said to the party
        alone.
        """
        if np.all(y == y[0]):
            # Of one class: it votes for it.
            return _ballot(np.full(len(auxiliary), y[0]), n_classes)
        try:
            found = np.asarray(self._made().fit(X, y.astype(np.intp)).predict(auxiliary))
        except StudyError:
            raise
        except Exception as error:
            raise StudyError(
                f"classifier.name: {self.name} failed on this party's rows "
                f"({type(error).__name__}). Nothing was spent; correct its settings, or leave it "
                "out for logistic regression."
            ) from error
        labels = (-1, 1) if n_classes == 2 else range(n_classes)
        if found.shape != (len(auxiliary),) or not np.all(np.isin(found, list(labels))):
            raise StudyError(
                f"classifier.name: {self.name} does not predict one of its labels for every row."
            )
        return _ballot(found, n_classes)

    def _made(self) -> Any:
        module, _, name = self.name.partition(":")
        try:
            made = getattr(import_module(module), name)(**self.settings)
        except Exception as error:
            raise StudyError(
                f"classifier.name: {self.name} cannot be made here ({type(error).__name__}); is it "
                "installed, and does it take these settings?"
            ) from error
        if not (hasattr(made, "fit") and hasattr(made, "predict")):
            raise StudyError(f"classifier.name: {self.name} has no fit or no predict.")
        return made


def _ballot(labels: NDArray[Any], n_classes: int) -> NDArray[np.bool_] | NDArray[np.int64]:
    return np.asarray(labels > 0) if n_classes == 2 else labels.astype(np.int64)


class LocalPolicy(FileTable):
    """What a party allows, whatever a study says: ``[policy]``."""

    #: Whose data must be hidden: a study that says otherwise is not answered.
    protects: Annotated[Unit, Field(strict=False)]
    relation: Relation  #: Against which change
    #: The weakest that it is content with: "own noise" by default, so that nobody else has to be
    #: trusted; "1 of 3" and the like for a sum, "coordinator" where one may see its answers.
    trust: Annotated[Trust, BeforeValidator(Trust.parse)] = OWN_NOISE
    #: The only operations that it answers; None allows whatever is installed.
    operations: list[Text] | None = None
    max_epsilon_per_run: Positive | None = None  #: The most that one run may spend
    #: The most that may ever be spent on its data, by all studies, whatever they call them.
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


class Local(FileTable):
    """One party's own side."""

    party: Name
    #: Made when it is first charged; ``<party>.ledger`` beside the local file by default.
    ledger_path: FilePath
    data_path: FilePath | None = None  #: Its table: a CSV or Parquet file, or a folder of either
    data: Query | None = None  #: Its table, where it is a query to a database
    dialect: Written | None = None  #: How a file of text is written, if not as its first line says
    #: Who reads the rows: "loop" (the default), "joblib", "dask" or a scheduler's address.
    engine: Text | None = None
    key_path: FilePath | None = None  #: The private key that it signs with
    #: None for a party without a local file, whose table was given by hand.
    policy: LocalPolicy | None = None
    #: The public key whose questions it answers: ``ssh-ed25519 AAAA...``.
    coordinator: PublicKeyLine | None = None
    #: Its copy of the public rows that a study names by their hash.
    auxiliary_path: FilePath | None = None
    #: What votes for it, where a study has parties vote; logistic regression by default.
    classifier: OwnClassifier | None = None
    #: Other parties' fingerprints, ``SHA256:...``, that people have compared with them.
    peers: dict[Name, Fingerprint] = Field(default_factory=dict)
    #: Which of the data sets in the organisation's home: their table, ledger and the policy stand
    #: there, and every study of them adds up.
    dataset: Name | None = None
    #: ``unit_column``, ``sha256``: what the home says about that table.
    unit_column: Text | None = None
    sha256: Digest | None = None
    #: What the organisation calls the state of its rows that is paid for now. Named by a calendar,
    #: whether or not rows change; another name is another charge.
    snapshot: Name = "1"

    def snapshots(self, until: datetime) -> Snapshots:
        """Return what its noise follows from, in the home, or beside a ledger that is in none."""
        beside, home = self.ledger_path, self.ledger_path.parent.parent
        secret, folder = (
            (beside.with_name(f"{beside.name}.{self.party}.{end}") for end in ("secret", "rows"))
            if self.dataset is None
            else (home / "keys" / "noise.secret", home / "snapshots" / self.dataset)
        )
        return Snapshots.at(secret, folder, self.snapshot, until)

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
        return open_table(self.data_path, dialect=self.dialect)


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
    told = ("data_path", "data", "dialect", "ledger_path", "policy", "peers", "snapshot")
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
        "dialect": None if one.dialect is None else asdict(one.dialect),
        "unit_column": one.unit_column,
        "sha256": one.sha256,
        "snapshot": one.snapshot,
        "policy": home.policy(),
        "peers": home.peers(),
    }


def gather_locals(
    study: Study,
    # Its file: without ``paths``, ``local.toml`` and ``local/*.toml`` beside it are taken.
    study_path: Path,
    paths: Sequence[Path] = (),  # Local files, or folders of them
    *,
    # ``data``, ``keys``: mapping of party to Path. Stand before the files' own; a party named in
    # ``data`` needs no local file.
    data: Mapping[str, Path] | None = None,
    keys: Mapping[str, Path] | None = None,
    ledger: Path | None = None,  # One ledger for all, before the files' own
) -> dict[str, Local]:
    """Return the parties that live here, by name, in the study's order."""
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
        found[local.party] = local.model_copy(update={"key_path": _key_named(study, local)})
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


def _key_named(study: Study, local: Local) -> Path | None:
    """Return the key that the study names: the party's, or one that it had before a rotation."""
    path, line = local.key_path, study.party(local.party).key
    if path is None or line is None:
        return path
    for public in path.parent.glob(f"{path.name}.*.pub"):
        if fingerprint(public) == fingerprint(line):
            return public.with_suffix("")
    return path


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


_HEADER = re.compile(r"^[ \t]*\[peers\][ \t]*(#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Peer:
    """Another party of a study, and whether the local file confirms its key."""

    name: str
    fingerprint: str
    confirmed: bool


def peers_of(study: Study, local: Local) -> list[Peer]:
    """Return the others whose answers a run uses.

    Raises StudyError if the study names another key than the one that the party has confirmed.
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


def confirm_peers(
    study: Study,  # Whose keys are meant
    path: Path,  # The local file
    told: Mapping[str, str],  # Mapping of party to fingerprint. As each of them said it.
) -> Local:
    """Write fingerprints that people have compared into ``[peers]`` of a local file.

    In a home they go into its ``peers.toml``: the next study finds them confirmed.
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
