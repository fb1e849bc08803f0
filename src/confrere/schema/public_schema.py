"""The public schema: everything that encoding needs, declared before anyone looks at data."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidData, InvalidParameter, SchemaError, SchemaMismatch
from confrere.schema.encoder import SchemaEncoder, standardised_columns
from confrere.schema.encoding import check_clip_norm
from confrere.schema.feature import Feature
from confrere.schema.label import Label
from confrere.schema.paid_facts import PaidFacts
from confrere.schema.tables import is_table
from confrere.schema.written import difference, read_schema, read_toml, write_schema, write_toml


@final
@dataclass(frozen=True)
class PublicSchema:
    """Ordered features with their public facts, the label and the clipping norm.

    Parameters
    ----------
    features : sequence of Number, Ordered, Category or Flag
        In the order of the encoded columns.
    outcome : Label, optional
        What is to be predicted; ``label`` in a study file.
    clip_norm : float or "rms", default="rms"
        Norm beyond which encoded rows are shrunk; ``"rms"`` is :attr:`rms_norm`.
    note : str, optional
        Where the facts come from. No part of the meaning: neither compared nor in the fingerprint.
    paid : sequence of PaidFacts, optional
        Which facts were learned from records, and the receipts; see :meth:`learn`.

    Examples
    --------
    >>> from confrere.schema import Flag, Label, Number, PublicSchema
    >>> schema = PublicSchema(
    ...     [
    ...         Number("age", bounds=(18, 100), mean=52, sd=16, importance=2, sign=1),
    ...         Flag("smoker", true="yes", false="no", share=0.2, importance=1, sign=1),
    ...     ],
    ...     outcome=Label("diabetes", positive="yes", base_rate=0.12),
    ... )
    >>> schema.feature_names
    ('age', 'smoker')
    """

    features: tuple[Feature, ...]
    outcome: Label | None = None
    clip_norm: float | Literal["rms"] = "rms"
    note: str = field(default="", compare=False)
    paid: tuple[PaidFacts, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _checked_features(self.features))
        try:
            object.__setattr__(self, "clip_norm", check_clip_norm(self.clip_norm))
        except InvalidParameter as problem:
            raise SchemaError(str(problem)) from None
        object.__setattr__(self, "paid", tuple(self.paid))
        if not all(isinstance(one, PaidFacts) for one in self.paid):
            raise SchemaError("paid must be a list of PaidFacts.")
        if self.outcome is not None:
            if not isinstance(self.outcome, Label):
                raise SchemaError("outcome must be a Label.")
            if self.outcome.column in self.columns:
                raise SchemaError(
                    f"column {self.outcome.column!r} is both a feature and the label."
                )

    # What the features imply.

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the declared columns."""
        return tuple(feature.column for feature in self.features)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for feature in self.features for name in feature.names)

    @property
    def has_importances(self) -> bool:
        """Whether importances are declared."""
        return self.features[0].importance is not None

    @property
    def rms_norm(self) -> float:
        """Root-mean-square norm of a scaled row, as the declared facts imply it.

        The square root of the summed variances of the encoded columns: 1 where a mean and a
        standard deviation or a share give the scale, 1/3 (the uniform law) for a number with
        nothing but bounds, the variance of equally likely levels for ordered ones.
        """
        return float(np.sqrt(self.variances().sum()))

    def variances(self) -> NDArray[np.float64]:
        """Return the variance of each encoded column that the declared facts imply."""
        return np.array([value for feature in self.features for value in feature.variances])

    def importances(self) -> NDArray[np.float64]:
        """Return the importance of each encoded column; ones if none is declared."""
        if not self.has_importances:
            return np.ones(len(self.feature_names))
        return np.array([value for feature in self.features for value in feature.importances or ()])

    def signs(self) -> NDArray[np.int_]:
        """Return the expected sign of each encoded column; 0 where none is declared."""
        return np.array([sign for feature in self.features for sign in feature.signs])

    # What can be done with it.

    def encoder(self, **settings: Any) -> SchemaEncoder:
        """Return the transformer from raw tables to bounded rows; see :class:`SchemaEncoder`."""
        return SchemaEncoder(self, **settings)

    def label(self, table: Any) -> NDArray[Any]:
        """Return the labels of a table: -1 and 1, or the declared classes."""
        if self.outcome is None:
            raise SchemaError("the schema declares no label.")
        return self.outcome.encode(self.outcome.column_of(table))

    def expert_weights(self) -> NDArray[np.float64]:
        """Return sign times importance of each encoded column, scaled to norm 1."""
        weights = self.signs() * self.importances()
        norm = float(np.linalg.norm(weights))
        if norm == 0:
            raise SchemaError("the expert score needs declared signs (with importances above 0).")
        return weights / norm

    @property
    def has_signs(self) -> bool:
        """Whether experts say which way any column points, and that it matters."""
        return bool(np.any(self.signs() * self.importances()))

    def expert_prior(self) -> NDArray[np.float64]:
        """Return the experts' log odds per unit of each column of ``encoder()``, without weights.

        Estimators take them by themselves: ``prior="experts"`` with ``schema=``.
        """
        return self.encoder().expert_prior()

    def column_weights(self) -> NDArray[np.float64]:
        """Return public factors of the encoded columns, by importance.

        Scaled so that rows keep the root mean square norm that the schema implies.
        """
        return self.encoder(weighted=True).multipliers()

    def expert_score(self, X: Any) -> NDArray[np.float64]:
        """Score rows by sign times importance: what is known with no data at all.

        Parameters
        ----------
        X : data frame or array
            A data frame is a raw table, scaled without bounding its rows; an array is one that
            ``schema.encoder()`` has encoded without weights.

        Returns
        -------
        array of shape (rows,)
            The higher, the likelier the positive side.
        """
        weights = self.expert_weights()
        if is_table(X):
            scores: NDArray[np.float64] = weights @ standardised_columns(self, X)
            return scores
        if np.ndim(X) != 2 or np.shape(X)[1] != len(weights):
            raise InvalidData(f"X must be a data frame or an array of {len(weights)} columns.")
        encoded: NDArray[np.float64] = np.asarray(X, dtype=np.float64) @ weights
        return encoded

    def learn(
        self,
        table: Any,
        *,
        epsilon: float,
        quantiles: int = 0,
        neighbours: str = "replace-one",
        party: Any = None,
        ledger: Any = None,
        account: str | None = None,
        random_state: Any = None,
    ) -> PublicSchema:
        """Return the schema with facts that it lacks, learned from records and paid for.

        Means and deviations of numbers, shares of values, missing cells and the base rate, as far
        as they are not declared. A mean and a deviation that the noise drowns are left out. The
        receipt is in ``paid``, and counts in the total of whatever is released with the schema.

        Parameters
        ----------
        table : data frame
            Private records.
        epsilon : float
            The price of all facts together; charged before noise is drawn.
        quantiles : int, default=0
            Also learn so many quantiles of every number that may become a curve.
        neighbours : {"replace-one", "add-remove"}, default="replace-one"
            Which change is hidden; as in the fits that are to come.
        party : array or str, optional
            Whose record it is, or the column that says so: all records of a party are hidden
            together, and facts are means over parties of their means.
        ledger, account, random_state
            As in :class:`confrere.PrivateLogisticRegression`.

        Notes
        -----
        Unit : record, or with ``party`` party. Neighbours : replace one row of ``table``, or add or
        remove one; or replace all rows of a party. Guarantee : ``epsilon``-DP, pure. Proof :
        docs/proofs/learned_facts.md.
        """
        # Paying is no business of this room, which stands below it: the door is opened when asked.
        learned: PublicSchema = import_module("confrere.learned_facts").learn_facts(
            self,
            table,
            epsilon=epsilon,
            quantiles=quantiles,
            neighbours=neighbours,
            party=party,
            ledger=ledger,
            account=account,
            random_state=random_state,
        )
        return learned

    def subset(self, columns: Sequence[str]) -> PublicSchema:
        """Return the schema of some columns, in the given order."""
        by_name = {feature.column: feature for feature in self.features}
        lacking = [column for column in columns if column not in by_name]
        if lacking:
            raise SchemaError(f"not in the schema: {', '.join(map(repr, lacking))}.")
        kept = tuple(by_name[column] for column in columns)
        # What was paid for other columns was paid for by the same records.
        return PublicSchema(kept, self.outcome, self.clip_norm, self.note, self.paid)

    # Whether two organisations mean the same.

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that has a meaning (so without the note)."""
        facts = {"format": "confrere-schema-1", **self.to_dict()}
        facts.pop("note", None)
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def difference(self, other: PublicSchema) -> list[str]:
        """Return one readable line per fact that differs; empty if the meaning is the same."""
        return difference(self.to_dict(), other.to_dict())

    def require_same(self, other: PublicSchema) -> None:
        """Raise if another schema does not mean the same, with the differences."""
        lines = self.difference(other)
        if lines:
            raise SchemaMismatch("the schemas differ:\n" + "\n".join(f"  {line}" for line in lines))

    def _repr_html_(self) -> str:
        from confrere.schema.schema_html import schema_html

        return schema_html(self)

    # Written forms.

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; features are a list, so their order is kept."""
        return write_schema(self.features, self.outcome, self.clip_norm, self.note, self.paid)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> PublicSchema:
        """Read what :meth:`to_dict` wrote, or the ``data`` table of a study file."""
        return cls(*read_schema(facts))

    def to_toml(self) -> str:
        """Return the ``[data]`` and ``[data.features]`` tables of a study file."""
        return write_toml(self.to_dict())

    @classmethod
    def from_toml(cls, source: str | Path) -> PublicSchema:
        """Read a TOML file (a path, or one line naming it) or a text of several lines."""
        return cls.from_dict(read_toml(source))


def _checked_features(features: object) -> tuple[Feature, ...]:
    if not isinstance(features, Sequence) or not all(isinstance(f, Feature) for f in features):
        raise SchemaError("features must be a list of Number, Ordered, Category and Flag.")
    if not features:
        raise SchemaError("a schema needs at least one feature.")
    found = tuple(features)
    _refuse_twice([feature.column for feature in found], "column")
    _refuse_twice([name for feature in found for name in feature.names], "encoded column")
    declaring = [feature for feature in found if feature.importance is not None]
    if declaring and len(declaring) < len(found):
        silent = next(feature.column for feature in found if feature.importance is None)
        raise SchemaError(
            f"column {silent!r} declares no importance, but others do: declare all or none."
        )
    if declaring and not any(max(feature.importances or (0,)) > 0 for feature in declaring):
        raise SchemaError("at least one importance must be above 0.")
    return found


def _refuse_twice(names: list[str], what: str) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SchemaError(f"{what} declared twice: {', '.join(map(repr, twice))}.")
