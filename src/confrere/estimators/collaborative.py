"""Several organisations, one model: every one releases once, a server averages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from confrere.data.cells import party_column
from confrere.data.tables import RowTable
from confrere.estimators.base import (
    AutoCount,
    Bound,
    Count,
    Declared,
    Delta,
    Epsilon,
    Experts,
    Finite,
    Levels,
    LinearClassifier,
    Ridge,
    Spare,
    check_parameters,
    estimator,
)
from confrere.kernel.guarantee import Guarantee
from confrere.methods.asking import Sizes, party_codes
from confrere.methods.average import CollaborativePlan
from confrere.methods.design import design_protocol
from confrere.methods.geometry import Noise, encodes
from confrere.methods.plan import LabelledTable, PublicFacts
from confrere.model import Model


@estimator
class CollaborativeClassifier(LinearClassifier):
    """Logistic regression of several parties through a central server (OFPA, OFAA made sound).

    Every party releases once (or once per round) about its own rows; the server averages, which
    is post-processing. The classifier simulates the parties in this process; the same protocols
    run between real organisations, see :mod:`confrere_federation.parties`.

    Parameters
    ----------
    method : {"average", "ofpa", "ofaa", "laplace", "sums"}, default="average"
        ``"average"``: objective perturbation with L2 noise, weighted average. ``"ofpa"``: the
        same with Laplace noise; ``data_norm`` is then a bound on the L1 norm. ``"ofaa"``: noisy
        coefficients of the expanded loss, summed and minimised. ``"laplace"``: noise on every
        party's minimiser, as a baseline. ``"sums"``: nobody sees what a party sends, and nobody
        draws the noise alone: one message per party, or with a ``delta`` rounds of gradients.
    rounds : int, default=1
        More than one divides epsilon; each round then shrinks towards the average of the one
        before. For ``"average"`` and ``"ofpa"``; for ``"sums"`` with a delta the number of
        gradient sums, where 1 stands for 20.
    stop_below : float, default=0.0
        Stop before the last round once the average moves by less than this: a decision on what was
        released. Between organisations the rounds that are left out are not paid for.
    combine : {"mean", "trimmed", "median"}, default="mean"
        What is made of the parties' weights: their mean by records; or, coordinate by coordinate
        with one vote per party, the mean without the largest and smallest fifth, or the median:
        both bound what a party that lies can do. Not for ``"ofaa"`` and ``"sums"``.
    declared_samples : int, optional
        Public stand-in for the number of all parties' records. With one, neighbours are add-remove:
        a party's own number of records is not public, and all parties count alike.
    prior_check : bool, default=True
        For ``"average"``: pay a twentieth of ``epsilon`` for every party's noised answer to how far
        ``prior`` holds on its records, and use it so far.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for, as in :class:`PrivateLogisticRegression`. Only the noise of
        ``"average"`` has the body's own shape; others have a ball's, in the coordinates that suit
        the schema. ``"auto"`` takes the schema's for ``"average"`` alone, of two classes, without
        a delta or numbers of a ``prior``. Asked of others it needs the encoder of all parties.

    Attributes
    ----------
    party_ : array of shape (n_parties,)
        The parties, sorted.
    party_weights_ : array of shape (n_parties,)
        Their shares of all records.

    Notes
    -----
    **Privacy**

    :Unit: record
    :Neighbours: replace one row of ``(X, y)``, within its party; with ``declared_samples`` one row
        comes or goes
    :Guarantee: ``epsilon``-DP, pure; ``(epsilon, delta)``-DP if ``delta`` is set
    :Spends: ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    :Public: n_samples of every party, n_features, the label set, every parameter
    :Releases: ``coef_``, ``intercept_``, and every party's own release behind them
    :Proof: docs/proofs/averaging.md

    ``"ofaa"`` rests on docs/proofs/functional_mechanism.md and ``"laplace"`` on
    docs/proofs/output_perturbation.md, ``"sums"`` on docs/proofs/secure_sums.md, where the
    guarantee is ``(epsilon, delta)`` and towards the coordinator computational. A person with rows
    at several parties pays epsilon at each.

    Examples
    --------
    >>> from confrere import CollaborativeClassifier
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = CollaborativeClassifier(epsilon=1.0, data_norm=5.0, random_state=0)
    >>> model = model.fit(X, y, party=[0] * 1000 + [1] * 700 + [2] * 300)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    >>> model.party_weights_
    array([0.5 , 0.35, 0.15])
    """

    method: Literal["average", "ofpa", "ofaa", "laplace", "sums"] = "average"
    epsilon: Epsilon = 1.0
    delta: Delta = 0.0
    colluding: AutoCount = "auto"
    reserve: Spare = 0
    data_norm: Bound = 1.0
    alpha: Ridge = "auto"
    rounds: Count = 1
    combine: Literal["mean", "trimmed", "median"] = "mean"
    stop_below: Finite = 0.0
    loss: Literal["capped", "logistic"] = "capped"
    fit_intercept: bool = True
    intercept_scale: float = 0.4
    feature_scale: ArrayLike | None = None
    declared_samples: Declared = None
    prior: Experts = "auto"
    prior_check: bool = True
    prior_intercept: Levels = 0.0
    noise: Noise = "auto"

    _kind = "collaborative"
    _sparse = False

    def fit(self, X: Any, y: Any = None, party: ArrayLike | None = None) -> Self:
        """Charge ``epsilon``, then release a model of all parties' rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), or raw table
            Rows of all parties; a raw table where there is a ``schema``.
        y : array of shape (n_samples,)
            Labels; may be left out where the schema says in which column of the table they are.
        party : array of shape (n_samples,), or str, optional
            Whose row it is, or the column of the table that says so: a public fact. By default all
            rows are one party's.
        """
        return self._fit(X, y, party=party)

    def price(
        self,
        n_samples: Any,
        n_features: int | None = None,
        n_classes: int | None = None,
        n_parties: int | None = None,
    ) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data.

        ``n_parties`` matters to ``method="sums"`` alone, whose promise names their number; by
        default the fewest that can hide anything.
        """
        if self.method != "sums":
            return super().price(n_samples, n_features, n_classes)
        check_parameters(self)
        least = 1 if self.colluding == "auto" else self.colluding
        count = least + 1 if n_parties is None else n_parties
        public = self._sizes(n_samples, n_features, n_classes)
        rows = public.n_samples
        sizes = {str(party): rows for party in range(count)}
        facts = replace(public, n_samples=rows * count, sizes=sizes)
        return self.plan(facts).guarantee()

    def prepare(
        self, X: Any, y: Any, party: ArrayLike | None = None
    ) -> tuple[CollaborativePlan, LabelledTable]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        if isinstance(X, RowTable) and isinstance(party, str):
            party = party_column(X.whole([party]), party)
        ids = party_column(X, party)
        # How rows are encoded may follow from the numbers of the parties' rows.
        self._party_sizes = np.bincount(party_codes(ids, 0 if ids is None else len(ids))[1])
        table = self._table(X, y)
        self.party_, codes = party_codes(ids, len(table.codes))
        counts = np.bincount(codes, minlength=len(self.party_)).tolist()
        facts = PublicFacts(
            n_samples=len(table.codes),
            n_features=table.X.shape[1],
            n_classes=max(2, len(table.classes)),
            sizes=dict(zip(map(str, self.party_), counts, strict=True)),
            features=table.features,
        )
        return self.plan(facts), replace(table, party=codes)

    def plan(self, facts: PublicFacts) -> CollaborativePlan:
        """Return everything that is decided before the data are touched."""
        sizes = Sizes({"all": facts.n_samples} if facts.sizes is None else facts.sizes)
        encoder = self.encoder_for(sizes.counts)
        if encoder is not None and not encodes(encoder, facts.features):
            encoder = None
        # Whoever asks for a price names no columns: those are the encoder's.
        width = facts.n_features if encoder is None else len(encoder.names)
        if self.declared_samples is not None:
            sizes = Sizes.declared(sizes.counts, self.declared_samples)
        made = design_protocol(self._asked(), width, facts.n_classes, encoder)
        return CollaborativePlan(self.method, made, sizes, encoder)

    def _keep(self, plan: CollaborativePlan, learned: Any, model: Model) -> None:
        super()._keep(plan, learned, model)
        counts = np.array(list(plan.sizes.counts.values()), dtype=np.float64)
        self.party_weights_ = counts / counts.sum()
