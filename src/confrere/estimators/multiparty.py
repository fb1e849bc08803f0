"""Many parties with few rows each: one model, private for every whole party."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from confrere.data.cells import is_table, party_column
from confrere.data.encoding import SchemaEncoder
from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import (
    AutoCount,
    Bound,
    Delta,
    Epsilon,
    LinearClassifier,
    Positive,
    Ridge,
    Spare,
    check_parameters,
    estimator,
    one_of,
)
from confrere.kernel.guarantee import Guarantee
from confrere.methods.plan import PublicFacts, linear_frame
from confrere.methods.votes import (
    Method,
    MultipartyPlan,
    MultipartyResult,
    Parties,
    Voting,
    apply_policy,
    dense,
    group_rows,
    local_of,
    stack_tables,
)
from confrere.model import Linear, Model


@estimator
class MultipartyClassifier(LinearClassifier):
    """Learning from many parties' classifiers (Hamm et al., Algorithms 1 and 2, made sharper).

    Every party trains on its own rows and votes on unlabelled auxiliary rows; the votes' sums make
    one linear model. All data of a party are protected together. The classifier simulates the
    parties in this process; the same protocol runs between real organisations, see
    :class:`confrere_federation.parties.Trusted`.

    Parameters
    ----------
    method : {"statistic", "cells", "soft", "vote", "weights"}, default="statistic"
        Where noise goes. ``"statistic"``: on the one vector through which votes enter the risk of
        public auxiliary rows; training is post-processing. ``"cells"``: on how the parties' rows
        are shared over classes and public cells, clusters of the auxiliary rows; by far the best
        for three classes and more, and for two where rows are clustered. ``"soft"``: on the model
        of the votes' fractions. ``"vote"``: on the model of their majority, as a baseline.
        ``"weights"``: on the mean of the parties' own weights, without auxiliary rows.
    alpha : float or "auto", default="auto"
        Ridge of the released model on the mean loss of the auxiliary rows; for ``"weights"`` of the
        parties' own; for ``"cells"`` on half-white rows. ``"auto"`` is a public rule, for
        ``"statistic"`` and ``"cells"`` one that also looks at what was released.
    local : classifier, list or callable, optional
        What parties train: a scikit-learn classifier that is cloned for each, one per party in the
        order of their names, or a function from a party's name to one. By default logistic
        regression, all parties at once. Not for ``"weights"`` and ``"cells"``.
    local_alpha : float, default=1e-4
        Ridge of the default local classifier on the mean loss of a party's rows.
    radius : {"ellipsoid", "spectral", "unit"}, default="ellipsoid"
        What noise owes to the public auxiliary rows: its shape, its size, or nothing. ``"soft"``
        and ``"vote"`` take the size for the shape.
    auxiliary_private : bool, default=False
        Hide one auxiliary row together with the party, for ``"soft"`` and ``"vote"``.
    normalise : bool, default=False
        For ``"weights"``: average directions.
    trust : {"coordinator", "sum"}, default="coordinator"
        Who adds the noise. ``"sum"``: nobody; every party draws a share of it, so that nobody has
        to see what a party sends (docs/sums.md). Not for ``"soft"`` and ``"vote"``, whose
        coordinator noises a model of all votes and is trusted with them.
    on_faulty : {"leave-out", "refuse"}, default="leave-out"
        Parties with values that are not finite, undeclared labels or other columns: count them as
        split votes (as zero weights) and log their names, or raise.
    memory : float, default=256.0
        Megabytes for what is computed in blocks, beside the rows themselves.

    Attributes
    ----------
    alpha_ : float
        The ridge behind them.
    statistic_ : array
        For ``"statistic"``: what was released; every other model of it costs nothing more. For
        ``"cells"`` the share of all rows in every cell and class, with noise.
    n_parties_ : int
        Public number of parties.

    Notes
    -----
    **Privacy**

    :Unit: party
    :Neighbours: replace all rows of one party, and how many they are
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP with a ``delta``
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: the number of parties, n_features, the label set, the auxiliary rows, every parameter
    :Releases: ``coef_``, ``intercept_``, ``statistic_``
    :Proof: docs/proofs/multiparty.md

    ``"statistic"`` rests on docs/proofs/statistic.md, ``"cells"`` on docs/proofs/cells.md and
    ``"weights"`` on docs/proofs/party_average.md. With ``trust="coordinator"`` whoever runs ``fit``
    is trusted with what parties send and with adding the noise. Local classifiers must learn from
    their party's rows alone.

    Examples
    --------
    >>> import numpy as np
    >>> from confrere import MultipartyClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=6000, random_state=0)
    >>> party = np.repeat(np.arange(500), 10)
    >>> model = MultipartyClassifier(epsilon=1.0, data_norm=5.0, random_state=0)
    >>> model = model.fit(X[:5000], y[:5000], party=party, auxiliary=X[5000:])
    >>> print(model.guarantee_)
    1-DP per party (replace-one)
    """

    _protocol: ClassVar[type[Voting]] = Voting

    method: Annotated[Method, one_of(get_args(Method), average="weights")] = "statistic"
    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    data_norm: Bound = 1.0
    alpha: Ridge = "auto"
    local: Any = None
    local_alpha: Bound = 1e-4
    radius: Literal["ellipsoid", "spectral", "unit"] = "ellipsoid"
    auxiliary_private: bool = False
    normalise: bool = False
    trust: Literal["coordinator", "sum"] = "coordinator"
    colluding: AutoCount = "auto"
    reserve: Spare = 0
    on_faulty: Literal["leave-out", "refuse"] = "leave-out"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    feature_scale: ArrayLike | None = None
    memory: Positive = 256.0

    _kind = "multiparty"

    def price(
        self, n_parties: Any, n_features: int | None = None, n_classes: int | None = None
    ) -> Guarantee:
        """Return what one ``fit`` of so many parties, or tables, would spend; touches no data."""
        return super().price(n_parties, n_features, n_classes)

    def fit(
        self, X: Any, y: Any = None, party: ArrayLike | None = None, auxiliary: Any = None
    ) -> Self:
        """Charge ``epsilon``, then release a model of all parties' votes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or list of tables
            Rows of all parties; or one table per party. Raw tables where there is a ``schema``.
        y : array of shape (n_samples,), or list of arrays
            Labels; may be left out where the schema says in which column of a table they are.
        party : array of shape (n_samples,), or str, or one name per table, optional
            Whose row it is, or the column of the table that says so. By default every row (every
            table) is a party of its own.
        auxiliary : array or sparse matrix of shape (n_auxiliary, n_features)
            Unlabelled rows that parties vote on, or that are learned with; public, unless
            ``auxiliary_private``. Not used by ``"weights"``.
        """
        return self._fit(X, y, party=party, auxiliary=auxiliary)

    def prepare(
        self, X: Any, y: Any, party: ArrayLike | None = None, auxiliary: Any = None
    ) -> tuple[MultipartyPlan, Parties]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        parties = self._parties(X, y, party_column(X, party), auxiliary)
        facts = PublicFacts(
            n_samples=len(parties),
            n_features=parties.X.shape[1],
            n_classes=max(2, len(parties.classes)),
            auxiliary=self._auxiliary(auxiliary),
        )
        plan = self.plan(facts)
        plan.voting.check(len(parties))
        if self.local is not None:
            local_of(self.local, 0, len(parties), parties.names[0])
        apply_policy(parties, self.on_faulty)
        if self.local is not None:
            # Code of others may fail on anything: it runs, without noise, before a price is paid.
            parties = replace(parties, total=plan.total(parties))
        return plan, replace(parties, features=self._features(self._encoder()))

    def plan(self, facts: PublicFacts) -> MultipartyPlan:
        """Return everything that is decided before the data are touched.

        ``facts.n_samples`` is the number of parties: how many rows they have is not public.
        """
        if self.local is not None and self.method in ("weights", "cells"):
            raise InvalidParameter(
                f"local: method={self.method!r} has no use for other classifiers (only weights of "
                "the built-in one have a bound to average under); use method='statistic'."
            )
        frame = linear_frame(
            facts.n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
        )
        asked, names = self.get_params(deep=False), {one.name for one in fields(Voting)}
        voting = self._protocol(
            frame=frame,
            auxiliary=facts.auxiliary,
            n_classes=facts.n_classes,
            **{name: value for name, value in asked.items() if name in names},
        )
        return MultipartyPlan(
            voting=voting,
            n_parties=facts.n_samples,
            local=self.local,
            on_faulty=self.on_faulty,
            memory=self.memory,
        )

    def _model_in(self, learned: MultipartyResult) -> Linear:
        return learned.model

    def _keep(self, plan: MultipartyPlan, learned: MultipartyResult, model: Model) -> None:
        super()._keep(plan, learned, model)
        self.n_parties_ = plan.n_parties
        self.alpha_ = learned.model.facts.alpha
        if learned.statistic is not None:
            self.statistic_ = learned.statistic

    def faults(
        self, X: Any, y: Any, party: ArrayLike | None = None, auxiliary: Any = None
    ) -> dict[Any, str]:
        """Return the parties that ``fit`` would leave out, and why; spends nothing.

        About the data themselves: for whoever holds them, not to be published.
        """
        parties = self._parties(X, y, party_column(X, party), auxiliary)
        names = parties.names.tolist()
        return {names[k]: why for k, why in sorted(parties.faults.items())}

    def _parties(self, X: Any, y: Any, party: ArrayLike | None, auxiliary: Any) -> Parties:
        encoder = self._encoder()
        if encoder is not None:
            X, y = self._encoded_parties(encoder, X, y)
        if isinstance(X, list | tuple) and any(getattr(table, "ndim", 0) == 2 for table in X):
            classes = self._classes(np.concatenate([np.ravel(part) for part in y]))
            if encoder is not None:
                return stack_tables(X, y, party, classes, None)
            width = None if auxiliary is None else int(np.shape(auxiliary)[1])
            parties = stack_tables(X, y, party, classes, width)
            self._checked(parties.X[:1])
            return parties
        if encoder is not None:
            return group_rows(X, y, party, self._classes(y))
        if y is None:
            raise InvalidData(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        rows = self._checked(
            X,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
        labels = column_or_1d(y, warn=True)
        if rows.shape[0] != len(labels):
            raise InvalidData("y must hold one label per row of X.")
        if self.on_faulty == "refuse":
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        return group_rows(rows, labels, party, self._classes(y))

    def _encoded_parties(self, encoder: SchemaEncoder, X: Any, y: Any) -> tuple[Any, Any]:
        """Return rows and labels of raw tables; a party's table that does not fit is its fault."""
        if not (isinstance(X, list | tuple) and any(map(is_table, X))):
            encoded, found, _ = self._coded(encoder, X, y)
            return encoded.toarray(), found
        width = len(encoder.schema.feature_names)
        rows, labels = [], []
        for table, given in zip(X, [None] * len(X) if y is None else y, strict=True):
            try:
                encoded, found, _ = self._coded(encoder, table, given)
                rows.append(encoded.toarray())
            except InvalidData:
                found = np.array([-1])
                rows.append(np.full((1, width), np.nan))
            labels.append(found)
        return rows, labels

    def _auxiliary(self, auxiliary: Any) -> NDArray[np.float64] | None:
        if self.method == "weights" or auxiliary is None:
            return None
        encoder = self._encoder()
        if encoder is not None:
            return encoder.transform(auxiliary)
        rows = self._checked(auxiliary, accept_sparse="csr", dtype=np.float64, reset=False)
        return dense(rows)
