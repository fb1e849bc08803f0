"""What every private classifier does in the same order: check, plan, charge, act, keep; predict.

What it is told before any data are coefficients as given, or a schema's experts. Predictions are
under the data's own names, from raw rows where a model has an encoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from confrere.data.cells import declared_classes, encode_labels, is_table, n_rows_of, plain_labels
from confrere.data.codes import Coded
from confrere.data.encoding import SchemaEncoder
from confrere.data.engines import opened_engine
from confrere.data.tables import Parquet, RowTable, codes_by, decoded, gathered_codes
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.constraints import (
    KnownParameters,
    Labels,
    Meaning,
    Payer,
    check_parameters,
    estimator,
)
from confrere.estimators.traps import (
    announce_fits,
    tell_owner_about_length,
    warn_about_cap,
    warn_about_norm,
    warn_about_steps,
)
from confrere.kernel.guarantee import Guarantee
from confrere.kernel.release import paying
from confrere.kernel.streams import RandomSource, Seed, simulation_of
from confrere.ledger import Ledger, Receipt, default_ledger, payer
from confrere.methods.design import Settings, design
from confrere.methods.plan import LabelledTable, Plan, PublicFacts
from confrere.model import Encoder, Linear, Model
from confrere.release import Release, Simulated
from confrere.release.spending import promised_with, schema_of, seeded_facts, with_facts


class Predicting:
    """What every classifier with a model does.

    scikit-learn wants labels sorted; a model knows which side is positive. Where the two orders
    differ, scores change their sign and columns their place.
    """

    model_: Model

    def _rows(self, X: Any) -> Any:
        """Return the rows that the model reads."""
        return X if self.model_.encoder is None else self.model_.encoded(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of every row, ``(n,)`` for two classes and ``(n, K)`` for more."""
        scores = self.model_.decision_function(self._rows(X))
        order = _order(self.model_)
        if scores.ndim == 2:
            return np.asarray(scores[:, order])
        return scores if order[0] == 0 else -scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the model's class probabilities; of votes, the share of the votes."""
        return np.asarray(self.model_.predict_proba(self._rows(X))[:, _order(self.model_)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row."""
        codes = self.model_.codes(self.model_.decision_function(self._rows(X)))
        return np.asarray(np.asarray(self.model_.labels)[codes])

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted right; looks at the labels, unpaid.

        Labels may be left out where a schema says in which column of the table they are.
        """
        predicted = self.predict(X)
        return float(accuracy_score(self.true_labels(X, y), predicted, sample_weight=sample_weight))

    def true_labels(self, X: Any, y: Any = None) -> Any:
        """Return labels by the names that are predicted; without ``y``, those in the table."""
        encoder = self.model_.encoder
        outcome = None if encoder is None else encoder.schema.outcome
        if outcome is None or encoder is None or encoder.labels is None:
            if y is None:
                raise InvalidData("y must be given: no schema says where the labels are.")
            return y
        found = outcome.encode(outcome.column_of(X if y is None else y))
        return np.asarray(encoder.labels)[np.searchsorted(np.asarray(self.model_.classes), found)]


def _order(model: Model) -> NDArray[np.intp]:
    return np.argsort(np.asarray(model.labels), kind="stable")


def sorted_labels(model: Model) -> NDArray[Any]:
    """Return the names of the classes in scikit-learn's order."""
    labels = np.asarray(model.labels)
    return np.asarray(labels[np.argsort(labels, kind="stable")])


def carried(encoder: SchemaEncoder, model: Model) -> Encoder:
    """Return an encoder as a model carries it, with the data's names for the schema's classes."""
    outcome = encoder.schema.outcome
    codes = None if outcome is None else (-1, 1) if outcome.classes is None else outcome.names
    return Encoder.of(encoder, labelled=tuple(model.classes) == codes)


def who_paid(receipt: Receipt, sources: Sequence[Release]) -> dict[str, Receipt | Guarantee]:
    """Return who paid what, so that a card can say what a person in several domains pays."""
    if not sources:
        return {}
    paid: dict[str, Receipt | Guarantee] = {"target": receipt}
    for k, release in enumerate(sources):
        name = "source" if len(sources) == 1 else f"source {k + 1}"
        paid[name] = release.receipt or release.guarantee
    return paid


class Fitted(Predicting):
    """What every fitted private classifier has."""

    guarantee_: Guarantee
    receipt_: Receipt
    simulated_: bool
    classes_: NDArray[Any]
    n_features_in_: int
    sources_: tuple[Release, ...] = ()


@estimator
class PrivateClassifier(KnownParameters, Fitted, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The way of the data, once: nothing is drawn before the ledger has the price on disk.

    A subclass declares its parameters, whose annotations are what they are checked against, and the
    kind of its releases: what follows from them is designed in :mod:`confrere.methods.design`.

    Parameters
    ----------
    epsilon : float
        Price of one ``fit``.
    delta : float
        0 is pure privacy. Above 0, and below ``1/n_samples``, the noise is Gaussian: less of it the
        more features there are, for a guarantee that may fail with that probability.
    data_norm : float
        Declared bound on the Euclidean norm of a row (after ``feature_scale``); longer rows are
        clipped to it.
    alpha : float or "auto"
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features.
    fit_intercept : bool
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float
        That constant, between 0 and 1.
    loss : {"capped", "logistic"}
        ``"capped"`` goes on linearly where the slope reaches one half: about half the noise. More
        than two classes have the softmax loss.
    feature_scale : array of shape (n_features,)
        Public factors (importances) that multiply the columns before clipping.
    prior : array of shape (n_features,) or (n_classes, n_features), or "experts"
        Public coefficients to shrink towards, in the units of ``coef_``: log odds as experts see
        them, of more than two classes with a row for each. ``"experts"``, for two classes, are the
        signs, importances and the base rate that the schema declares. Noise is pulled towards them
        by a ridge that says how well they are known, and ``feature_scale`` and importances are
        used as far as they hold.
    prior_check : bool
        Pay a twentieth to three tenths of ``epsilon`` for a noised answer to how far the ``prior``,
        or the sources, hold on these records, and use them so far. Without, a wrong one is
        believed.
    prior_intercept : float, or array of shape (n_classes,)
        Log-odds of a declared base rate, public: the intercept to shrink towards, set further out
        where a ``prior`` spreads the scores around it. Of more than two classes one for each.
    noise : {"auto", "ball", "schema"}
        Which body noise is made for. ``"schema"`` is the one that the schema declares, in which a
        number lies in an interval or on a curve and one of a category's columns is one; with a
        delta rows are the same, and noise is Gaussian where that pays. ``"auto"`` takes it wherever
        a schema without importances is given, unless ``prior``, ``feature_scale`` or ``alpha``
        speak of columns one by one. ``data_norm``, ``intercept_scale`` and ``ridge_floor`` are the
        ball's.
    declared_samples : int
        Public stand-in for the number of rows, where that is not public: neighbours are add-remove.
    source : Release, path, or a sequence of them
        What other organisations released; required by ``fit``.
    source_keys : mapping of party to public key
        Signatures that a source read from disk must carry.
    colluding : int or "auto"
        For sums: how many parties may pool what they know. The noise is made by the shares of the
        others. By default fewer than half of them.
    reserve : int
        For sums: how many lost ones the price covers besides. Between machines somebody may vanish
        in the middle of one; the noise is made for all of them.
    schema : PublicSchema or SchemaEncoder
        What raw columns mean: ``fit`` takes raw tables, and a source with another meaning is
        refused.
    classes : list
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    ledger : Ledger
        Where the price is charged; by default the process's own.
    account : str
        The account in it; may be left out if there is only one.
    random_state : int or generator
        Simulation only: the result is marked simulated and cannot be released.

    Attributes
    ----------
    classes_ : array
        The declared label set, sorted.
    guarantee_ : Guarantee
        What was promised.
    receipt_ : Receipt
        The ledger entry that paid for it.
    simulated_ : bool
        Whether the noise came from a seed.
    """

    schema: Meaning = None
    classes: Labels = None
    ledger: Payer = None
    account: str | None = None
    random_state: Seed | None = None

    #: The kind of its releases, and what it takes: not annotated, so that they are no parameters.
    _kind = ""
    _sparse = True
    _dtype: ClassVar[Any] = np.float64
    _many_classes = True

    def plan(self, facts: PublicFacts) -> Plan[Any]:
        """Return everything that is decided before the data are touched."""
        return design(self._asked(), facts)

    def _asked(self, *, opened: bool = True) -> Settings:
        """Return what is asked; without ``opened`` no release is read."""
        names = Settings.__dataclass_fields__.keys() & type(self).__dataclass_fields__.keys()
        given = {name: getattr(self, name) for name in names}
        return Settings(kind=self._kind, sources=self._sources() if opened else (), **given)

    def _sources(self) -> tuple[Release, ...]:
        """Return the releases that are started from."""
        return ()

    def price(
        self, n_samples: Any, n_features: int | None = None, n_classes: int | None = None
    ) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data.

        Parameters
        ----------
        n_samples : int, or table
            How many rows; of a table only their number is used.
        n_features, n_classes : int, optional
            Follow from the schema if there is one; otherwise columns must be said, and classes are
            two unless said.
        """
        check_parameters(self)
        return self._promised(self.plan(self._sizes(n_samples, n_features, n_classes)))

    def _promised(self, plan: Plan[Any]) -> Guarantee:
        price = plan.guarantee()
        return price if self.schema is None else promised_with(schema_of(self._encoder()), price)

    def _sizes(self, n_samples: Any, n_features: int | None, n_classes: int | None) -> PublicFacts:
        """Return the public sizes that a price depends on."""
        if not isinstance(n_samples, int | np.integer):
            if self.schema is None:
                n_features = n_features or int(np.shape(n_samples)[1])
            n_samples = n_rows_of(n_samples)
        encoder = self._encoder(int(n_samples))
        if encoder is not None:
            outcome = encoder.schema.outcome
            n_features = n_features or len(encoder.names)
            n_classes = n_classes or (len(outcome.classes) if outcome and outcome.classes else 2)
        if n_features is None:
            raise InvalidParameter("n_features must be given: there is no schema that says it.")
        return PublicFacts(
            n_samples=int(n_samples), n_features=n_features, n_classes=n_classes or 2
        )

    def prepare(self, X: Any, y: Any) -> tuple[Plan[Any], Any]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        table = self._table(X, y)
        facts = PublicFacts(
            n_samples=table.X.shape[0],
            n_features=table.X.shape[1],
            n_classes=max(2, len(table.classes)),
            classes=table.classes,
            features=table.features,
        )
        return self.plan(facts), table

    def fit(self, X: Any, y: Any = None) -> Self:
        """Charge the price, then release a model of ``(X, y)``.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or raw table
            A raw table, of pandas, polars or pyarrow, where there is a ``schema``. Or a
            :class:`~confrere.data.tables.RowTable`: a file or a database, read once, with
            ``y`` the name of its label column.
        y : array of shape (n_samples,)
            Labels. With a schema, as its label declares them; they may be left out then, if the
            table holds them.
        """
        return self._fit(X, y)

    def _fit(self, X: Any, y: Any, **public: Any) -> Self:
        plan, data = self.prepare(X, y, **public)
        if self.random_state is None:
            warn_about_steps(self)
            warn_about_norm(self._encoder(), getattr(self, "data_norm", None))
        if getattr(self, "engine", None) is None:
            return self._pay_and_learn(plan, data)
        with opened_engine(self.engine) as engine:
            return self._pay_and_learn(plan, replace(data, engine=engine))

    def _pay_and_learn(self, plan: Plan[Any], data: Any) -> Self:
        guarantee, event = self._promised(plan), plan.event()
        ledger, account = self.ledger, self.account
        if ledger is None:
            ledger, account = payer(None, account, guarantee)
        simulation = simulation_of(self.random_state)
        if simulation is None:
            warn_about_cap(ledger, account)
        how: dict[str, Any] = {"event": event, "simulation": simulation}
        with paying(ledger, account, guarantee, purpose=self._purpose(), **how) as ticket:
            learned = plan.run(data, ticket)
            model = self._encoding_model(learned)
            digest = model.digest()
            ledger.mark_released(ticket.receipt, digest=digest)
        self.guarantee_, self.receipt_ = guarantee, ticket.receipt
        self.simulated_ = ticket.simulated
        self._keep(plan, learned, model)
        tell_owner_about_length(data, getattr(self, "data_norm", None))
        return self

    def learn(self, plan: Plan[Any], data: Any, source: RandomSource) -> Self:
        """Run what :meth:`prepare` returned, for a caller who has paid, and keep what it gives."""
        learned = plan.run(data, source)
        self._keep(plan, learned, self._encoding_model(learned))
        return self

    def _model_in(self, learned: Any) -> Model:
        """Return the model in what a plan's run gave."""
        return learned  # type: ignore[no-any-return]

    def _encoding_model(self, learned: Any) -> Model:
        """Return the model with what turns raw rows into its own."""
        model = self._model_in(learned)
        encoder = self._encoder(model.facts.n_samples)
        return model if encoder is None else replace(model, encoder=carried(encoder, model))

    def _keep(self, plan: Any, learned: Any, model: Model) -> None:  # noqa: ARG002
        """Set fitted attributes, from what was released and from public facts alone."""
        self.model_ = model
        self.classes_ = sorted_labels(self.model_)
        if sources := getattr(plan, "sources", ()):
            self.sources_ = sources

    def to_release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them.

        The card of a model that started from sources says what a person in several domains pays.

        Parameters
        ----------
        encoder : SchemaEncoder, optional
            What encoded the rows that ``fit`` was given, where it was a step of its own: of a
            pipeline, ``pipeline[-1].to_release(pipeline[0])``. The ledger notes the model with it.
        """
        check_is_fitted(self)
        model = self.model_ if encoder is None else self._carrying(encoder)
        paid = who_paid(self.receipt_, self.sources_)
        seeded = self.simulated_ or seeded_facts(schema_of(model.encoder))
        return (Simulated if seeded else Release)(
            kind=self._kind,
            model=model,
            guarantee=self.guarantee_,
            receipt=self.receipt_,
            parties=with_facts(paid, self.receipt_, schema_of(model.encoder)),
        )

    def _carrying(self, encoder: SchemaEncoder) -> Model:
        """Return the model with an encoder that stood before the estimator."""
        if self.model_.encoder is not None:
            raise InvalidParameter("encoder: the model has one already, from its schema.")
        if not isinstance(encoder, SchemaEncoder):
            raise InvalidParameter("encoder must be a SchemaEncoder: a release carries no other.")
        names = encoder.names
        if len(names) != len(self.model_.features):
            raise InvalidParameter(
                f"encoder makes {len(names)} columns, the model reads {len(self.model_.features)}."
            )
        named = replace(self.model_, features=names)
        model = replace(named, encoder=carried(encoder, named))
        self._open_ledger().note_model(self.receipt_, digest=model.digest())
        return model

    def __sklearn_clone__(self) -> Self:
        if total := announce_fits(self):
            self._open_ledger(*total)
        copy: Self = super().__sklearn_clone__()
        return copy

    def _purpose(self) -> str:
        return f"fit {type(self).__name__}"

    def _open_ledger(self, epsilon: float = 0.0, delta: float = 0.0) -> Ledger:
        """Return the ledger, or say that the account does not exist, or does not cover a total."""
        ledger = default_ledger() if self.ledger is None else self.ledger
        if self.ledger is not None or self.account is not None or not ledger.ephemeral:
            ledger.account_for(self.account)
            if epsilon:
                ledger.require(self.account, epsilon, delta)
        return ledger

    def _checked(self, *arrays: Any, **rules: Any) -> Any:
        """Check arrays as scikit-learn does, without ever quoting a value from them."""
        try:
            # Whether all are finite is asked of their sum first, which may overflow.
            with np.errstate(over="ignore", invalid="ignore"):
                return validate_data(self, *arrays, **rules)
        except ValueError as error:
            raise _without_values(error) from None

    def _encoder(self, n_samples: int | None = None) -> SchemaEncoder | None:
        """Return what encodes raw tables; without a public number of rows, what columns mean."""
        if self.schema is None or isinstance(self.schema, SchemaEncoder):
            return self.schema
        asked = self._asked(opened=n_samples is not None)
        return asked.encoder(n_samples, len(getattr(self, "party_", "1")))

    def encoder_for(self, sizes: Mapping[str, int]) -> SchemaEncoder | None:
        """Return what encodes raw tables of parties of these public numbers of rows."""
        return self._asked().encoder(sum(sizes.values()), len(sizes))

    @property
    def _least_rows(self) -> int:
        """The fewest rows that can be learned from: none where their number is not public."""
        told = "add-remove" if getattr(self, "declared_samples", None) is not None else ""
        return 0 if getattr(self, "neighbours", told) == "add-remove" else 1

    def _table(self, X: Any, y: Any) -> LabelledTable:
        """Return rows and class codes, checked; those of a file or a database are read once."""
        tags, encoder = self.__sklearn_tags__(), self._encoder()
        if encoder is not None:
            rows, labels, encoder = self._coded(encoder, X, y)
            y, features = labels, list(encoder.names)
        elif isinstance(X, RowTable):
            if not isinstance(y, str):
                raise InvalidParameter("y must be the name of the table's label column.")
            table = decoded(X, label=y)
            rows, y, features = table.X, np.asarray(table.y), list(table.columns)
            labels, self.n_features_in_ = y, rows.shape[1]
        else:
            sparse = "csr" if tags.input_tags.sparse else False
            least = {"ensure_min_samples": self._least_rows}
            rows, labels = self._checked(X, y, accept_sparse=sparse, dtype=self._dtype, **least)
            features = self._features(None)
            labels = plain_labels("y", labels)
            if labels.dtype.kind not in "biu":  # whole numbers are classes
                check_classification_targets(labels)
        if encoder is None or encoder.schema.outcome is None:
            simulated = self.random_state is not None
            classes = declared_classes(self.classes, y, simulated=simulated)
        else:
            classes = self._classes(y)
        if len(classes) > 2 and not tags.classifier_tags.multi_class:
            raise InvalidParameter(
                "Only binary classification is supported. classes must name two labels."
            )
        return LabelledTable(rows, encode_labels(labels, classes), classes, features)

    def _classes(self, y: Any) -> NDArray[Any]:
        """Return the public label set, sorted."""
        encoder = self._encoder()
        outcome = None if encoder is None else encoder.schema.outcome
        if outcome is None:
            return declared_classes(self.classes, y, simulated=self.random_state is not None)
        declared = np.unique([-1, 1] if outcome.classes is None else outcome.classes)
        if self.classes is not None and np.unique(self.classes).tolist() != declared.tolist():
            raise InvalidParameter("classes: the schema declares the label; leave classes out.")
        return declared

    def _coded(
        self, encoder: SchemaEncoder, X: Any, y: Any
    ) -> tuple[Coded, NDArray[Any], SchemaEncoder]:
        """Return rows and labels of a raw table in any container, and what encodes them.

        A cell's code hangs on the schema alone: what it becomes is decided when rows are counted.
        """
        if isinstance(X, RowTable):
            stores, labels = self._read(encoder, X, y)
        else:
            stores, labels = encoder.codes(X), self._labels(encoder, X, y)
        n_rows = len(stores[0].codes)
        if n_rows < self._least_rows:
            raise InvalidData("X has no rows; a minimum of 1 is required.")
        self.n_features_in_ = len(encoder.schema.columns)
        self.feature_names_in_ = np.array(encoder.schema.columns, dtype=object)
        chosen = self._encoder(n_rows) or encoder
        return chosen.coded(stores), labels, chosen

    def _read(self, encoder: SchemaEncoder, table: RowTable, y: Any) -> tuple[Any, Any]:
        """Return the codes and labels of a table, read batch by batch."""
        outcome = encoder.schema.outcome
        label = y if outcome is None else outcome.column
        if not isinstance(label, str):
            raise InvalidParameter("y must be the name of the table's label column.")
        columns = [*encoder.schema.columns, label]
        batches = table.read(columns, least=self._least_rows)
        own = label if outcome is None else None
        with opened_engine(getattr(self, "engine", None)) as engine:
            if engine is not None and isinstance(table, Parquet) and len(table.groups) > 1:
                stores = codes_by(engine, table, encoder)
                read = table.read([label], least=self._least_rows)
                labels = [self._labels(encoder, one, own and one[own]) for one in read]
                return stores, np.concatenate(labels)
        pairs = (
            (encoder.codes(batch), self._labels(encoder, batch, own and batch[own]))
            for batch in batches
        )
        return gathered_codes(pairs, table.rows)

    def _labels(self, encoder: SchemaEncoder, X: Any, y: Any) -> NDArray[Any]:
        """Return labels as the schema codes them: -1 and 1, or the declared classes."""
        outcome = encoder.schema.outcome
        if y is None and (outcome is None or not is_table(X)):
            raise InvalidData(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        labels = X if y is None else y
        if outcome is not None:
            found = outcome.encode(outcome.column_of(labels))
        else:
            found = plain_labels("y", labels)
            check_classification_targets(found)
        if len(found) != n_rows_of(X):
            raise InvalidData("y must hold one label per row of X.")
        return found

    def _features(self, encoder: SchemaEncoder | None) -> list[str]:
        """Return the columns' names as releases write them."""
        if encoder is not None:
            return list(encoder.names)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return [str(name) for name in names]

    def _rows(self, X: Any) -> Any:
        """Check rows to predict, and encode them."""
        check_is_fitted(self)
        if self.model_.encoder is not None:
            return self.model_.encoded(X)
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        return self._checked(X, accept_sparse=sparse, dtype=np.float64, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse
        tags.classifier_tags.multi_class = self._many_classes
        return tags


class FittedLinear(Fitted):
    """What every fitted linear classifier has."""

    model_: Linear

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Released weights, for rows as given to ``fit``."""
        return self.model_.coef

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Released intercepts."""
        return self.model_.intercept


@estimator
class LinearClassifier(FittedLinear, PrivateClassifier):
    """A private classifier that learns a linear model.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    """


def _without_values(error: ValueError) -> ValueError:
    """Return an error of the same meaning that quotes nothing from the data, nor their number."""
    told = str(error)
    if "could not convert" in told:
        return InvalidData("X must be numeric; give schema=PublicSchema(...) to fit raw tables.")
    if "array=" in told:
        return InvalidData("X must be a matrix. Reshape your data: one row per record.")
    if "inconsistent numbers of samples" in told:
        return InvalidData("y must hold one label per row of X.")
    if "shape=(" in told:
        return ValueError(re.sub(r"shape=\(\d+", "shape=(", told))
    return error
