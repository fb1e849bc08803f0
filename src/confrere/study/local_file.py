"""A party's local file, never shared: where its data, key and ledger lie, and what it may spend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from confrere.errors import BudgetExceeded, OperationRefused, StudyError
from confrere.guarantee import Guarantee, Neighbours, Unit
from confrere.ledger import Decision, Ledger, LedgerReader
from confrere.ledger.accounts import at_most, exact, minus, plus
from confrere.rows.row_tables import RowTable, Sql, open_table
from confrere.study.own_classifier import OwnClassifier
from confrere.study.study_file import Study
from confrere.study.study_tables import Party
from confrere.study.typed_files import (
    Name,
    Positive,
    PublicKeyLine,
    Table,
    Text,
    parse_toml,
    read_bytes,
)


def _beside(text: Path, info: ValidationInfo) -> Path:
    """Take a path of a file as relative to the file."""
    folder = (info.context or {}).get("folder")
    return text if folder is None else Path(folder) / text.expanduser()


FilePath = Annotated[Path, Field(strict=False), AfterValidator(_beside)]


class LocalPolicy(Table):
    """What a party allows, whatever a study says: ``[policy]``.

    Attributes
    ----------
    protects : Unit
        Whose data must be hidden: a study that says otherwise is not answered.
    relation : Neighbours
        Against which change.
    operations : list of str or None
        The only operations that it answers; None allows whatever is installed.
    max_epsilon_per_run : float or None
        The most that one run may spend.
    lifetime_epsilon : float or None
        The most that may ever be spent on its data.
    """

    protects: Annotated[Unit, Field(strict=False)]
    relation: Annotated[Neighbours, Field(strict=False)]
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
    if "ledger_path" not in values and isinstance(values.get("party"), str):
        values["ledger_path"] = f"{values['party']}.ledger"
    return LocalFile.read(values, "the local file", folder=file.parent)


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
        made = Local(party=party, ledger_path=study_path.parent / f"{party}.ledger")
        found[party] = found.get(party, made).model_copy(update={"data_path": path, "data": None})
    for party, path in (keys or {}).items():
        if party in found:
            found[party] = found[party].model_copy(update={"key_path": path})
    if ledger is not None:
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


@dataclass(frozen=True)
class Budget:
    """An account before a study spends.

    Attributes
    ----------
    spent : float
        What was charged to it so far.
    limit : float or None
        The strictest cap on all that is ever charged; None if nobody set one.
    limit_by : str
        Who set it: "study", "local policy" or "ledger".
    per_run : float or None
        What one run may spend.
    delta : float
        The cap on the sum of deltas, where epsilon has a limit.
    """

    spent: float
    limit: float | None
    limit_by: str
    per_run: float | None
    delta: float = 0.0

    @property
    def left(self) -> float:
        """What can still be charged; infinite without a limit."""
        if self.limit is None:
            return math.inf
        return max(0.0, at_most(minus(exact(self.limit), exact(self.spent))))

    def check(self, account: str, price: Guarantee) -> None:
        """Refuse a price that a limit does not cover; nothing is spent."""
        if self.per_run is not None and price.epsilon > self.per_run:
            raise BudgetExceeded(account, price.epsilon, self.per_run, "epsilon per run")
        if price.epsilon > self.left:
            raise BudgetExceeded(account, price.epsilon, self.left)
        if self.limit is not None and price.delta > self.delta:
            raise BudgetExceeded(account, price.delta, self.delta, "delta")


def _caps(party: Party, local: Local | None) -> dict[str, float | None]:
    """Return the caps on all that is ever charged that stand in files, by who set them."""
    policy = None if local is None else local.policy
    lifetime = None if policy is None else policy.lifetime_epsilon
    return {"study": party.cap.epsilon, "local policy": lifetime}


def limit_for_life(party: Party, local: Local) -> float | None:
    """Return what the account may ever have spent, as far as study and local file say.

    The ledger may allow more: every charge looks at this too, since another study may have been
    paid for between the look at the budget and the charge.
    """
    return min((cap for cap in _caps(party, local).values() if cap is not None), default=None)


def budget_of(party: Party, local: Local | None) -> Budget:
    """Return a party's budget: the strictest limit wins; no ledger is made."""
    policy = None if local is None else local.policy
    caps = _caps(party, local)
    deltas = [] if party.cap.epsilon is None else [party.cap.delta]
    spent = 0.0
    if local is not None and local.ledger_path.exists():
        for account in Ledger(local.ledger_path).accounts():
            if account.name == party.account:
                spent = account.spent
                if account.epsilon is not None:
                    # Where the cap is on a year, what earlier ones spent does not count.
                    earlier = minus(exact(account.spent), exact(account.counted))
                    caps["ledger"] = at_most(plus(exact(account.epsilon), earlier))
                deltas += [] if account.epsilon is None else [account.delta]
    limits = {name: cap for name, cap in caps.items() if cap is not None}
    by = min(limits, key=lambda name: limits[name]) if limits else ""
    per_run = None if policy is None else policy.max_epsilon_per_run
    return Budget(spent, limits.get(by), by, per_run, min(deltas, default=party.cap.delta))


def standing_refusal(study: Study, local: Local) -> Decision | None:
    """Return the no to a study that stands in a party's ledger, if one does; no ledger is made."""
    if not local.ledger_path.is_file():
        return None
    return LedgerReader.look(local.ledger_path).refusal(study.sha256)


def open_account(party: Party, local: Local, price: Guarantee) -> Ledger:
    """Return the ledger with the party's account open, once every limit covers the price."""
    budget = budget_of(party, local)
    budget.check(party.account, price)
    ledger = Ledger(local.ledger_path)
    if party.account not in {account.name for account in ledger.accounts()}:
        delta = 0.0 if budget.limit is None else budget.delta
        ledger.open_account(
            party.account,
            epsilon=budget.limit,
            delta=delta,
            unit=price.unit,
            neighbours=price.neighbours,
        )
    return ledger
