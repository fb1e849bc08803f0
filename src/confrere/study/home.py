"""One home per organisation: its keys and policy, its data sets by its own names, their ledgers.

A study calls a party's data what it likes; the party says which of its data sets they are. A data
set has one ledger, to which every study adds, whatever it calls the data and whenever it comes::

    keys/  peers.toml  policy.toml  datasets.toml  ledgers/<data set>.ledger  studies/<study>/
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, ValidationInfo

from confrere.errors import StudyError
from confrere.files import write_new
from confrere.study.typed_files import Digest, Name, Table, Text, parse_toml, read_bytes

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
""",
}
_NAME: TypeAdapter[str] = TypeAdapter(Name)


def _beside(text: Path, info: ValidationInfo) -> Path:
    """Take a path of a file as relative to the file."""
    folder = (info.context or {}).get("folder")
    return text if folder is None else Path(folder) / text.expanduser()


FilePath = Annotated[Path, Field(strict=False), AfterValidator(_beside)]


class Query(Table):
    """A table in a database: ``[data]``.

    Attributes
    ----------
    connection : str
        Its address; ``${NAME}`` in it stands for that environment variable, where secrets belong.
    sql : str
        What to ask; with an ``ORDER BY`` rows come in the same order every time.
    """

    connection: Text
    sql: Text


class DataSet(Table):
    """One table of an organisation.

    Attributes
    ----------
    path : Path or None
        A CSV or Parquet file, or a folder of either.
    data : Query or None
        The same, where it is a query to a database.
    unit_column : str or None
        Whose rows they are: a study that counts other units is not answered.
    sha256 : str or None
        Of a file that does not change.
    """

    path: FilePath | None = None
    data: Query | None = None
    unit_column: Text | None = None
    sha256: Digest | None = None


class _DataSets(Table):
    named: dict[Name, DataSet]


@dataclass(frozen=True)
class Home:
    """An organisation's folder.

    Attributes
    ----------
    folder : Path
    """

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

        Raises
        ------
        StudyError
            If two names are for one table: a data set has one ledger.
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
