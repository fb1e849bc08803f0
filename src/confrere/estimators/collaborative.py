"""Several organisations, one model: every one releases once, a server averages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from confrere.errors import InvalidParameter
from confrere.estimators.base import LinearClassifier, opinion_of
from confrere.estimators.constraints import (
    AutoCount,
    Bound,
    Count,
    Delta,
    Epsilon,
    Experts,
    Finite,
    Levels,
    Ridge,
    Spare,
    check_parameters,
)
from confrere.kernel.guarantee import Guarantee
from confrere.mechanisms.measurements import HiddenSize
from confrere.methods.asking import Sizes, party_codes
from confrere.methods.average import Averaging, Collaboration, CollaborativePlan
from confrere.methods.body import Leaf, Noise, choose_form, declared_number, encodes
from confrere.methods.design import allowance, slope_of
from confrere.methods.expansion import Expansion
from confrere.methods.linear import (
    Coordinates,
    SchemaGeometry,
    linear_frame,
)
from confrere.methods.plan import LabelledTable, PublicFacts
from confrere.methods.priors import Prior
from confrere.methods.sums import GradientRounds, OneMessage
from confrere.rows.row_tables import RowTable
from confrere.schema import PublicSchema, SchemaEncoder
from confrere.schema.cells import party_column
from confrere.schema.encoding import Form

#: Sums of gradients, unless told otherwise: more gained nothing, half as many lost .002.
_ROUNDS = 20

#: What noise is made for in a schema's coordinates.
_LEAVES: dict[str, Leaf] = {
    "average": "Max",
    "ofpa": "L1",
    "ofaa": "L2",
    "laplace": "L2",
    "sums": "L2",
}


@dataclass(kw_only=True, eq=False, repr=False)
class CollaborativeClassifier(LinearClassifier):
    """Logistic regression of several parties through a central server (OFPA, OFAA made sound).

    Every party releases once (or once per round) about its own rows; the server averages, which
    is post-processing. The classifier simulates the parties in this process; the same protocols
    run between real organisations, see :mod:`confrere.federation`.

    Parameters
    ----------
    method : {"average", "ofpa", "ofaa", "laplace", "sums"}, default="average"
        ``"average"``: objective perturbation with L2 noise, weighted average. ``"ofpa"``: the
        same with Laplace noise; ``data_norm`` is then a bound on the L1 norm. ``"ofaa"``: noisy
        coefficients of the expanded loss, summed and minimised. ``"laplace"``: noise on every
        party's minimiser, as a baseline. ``"sums"``: nobody sees what a party sends, and nobody
        draws the noise alone: one message per party, or with a ``delta`` rounds of gradients.
    epsilon : float, default=1.0
        Price of one ``fit``, for every party and thus for every record.
    delta : float, default=0.0
        Probability with which epsilon may not hold; 0 is pure. With one, noise is Gaussian, and for
        ``method="sums"`` parties answer in rounds. Not for ``"ofpa"``, whose noise is Laplace's.
    colluding : int or "auto", default="auto"
        For ``method="sums"``: how many parties may pool what they know. The noise is made by the
        shares of the others. By default fewer than half of them.
    reserve : int, default=0
        For ``method="sums"``: how many lost sums the price covers besides the others. Between
        machines somebody may vanish in the middle of one; the noise is made for all of them.
    data_norm : float, default=1.0
        Declared bound on the norm of a row (after ``feature_scale``); longer rows are clipped.
    alpha : float or "auto", default="auto"
        Ridge on the mean loss. ``"auto"`` is a public rule with the number of all parties'
        records.
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
    loss : {"capped", "logistic"}, default="capped"
        As in :class:`PrivateLogisticRegression`. ``"ofaa"`` expands the logistic loss, whichever is
        given; more than two classes have the softmax loss.
    fit_intercept, intercept_scale
        As in :class:`PrivateLogisticRegression`.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping.
    declared_samples : int, optional
        Public stand-in for the number of all parties' records. With one, neighbours are add-remove:
        a party's own number of records is not public, and all parties count alike.
    prior : array of shape (n_features,) or (n_classes, n_features), or "experts", optional
        Public coefficients to shrink towards, in the units of ``coef_``; ``"experts"`` are the
        signs, importances and the base rate that the schema declares. For ``"average"`` the ridge
        says how well they are known, and ``feature_scale`` and importances are used as far as they
        hold.
    prior_check : bool, default=True
        For ``"average"``: pay a twentieth of ``epsilon`` for every party's noised answer to how far
        ``prior`` holds on its records, and use it so far.
    prior_intercept : float, or array of shape (n_classes,), default=0.0
        Log-odds of a declared base rate: as in :class:`PrivateLogisticRegression`.
    noise : {"auto", "ball", "schema"}, default="auto"
        Which body noise is made for, as in :class:`PrivateLogisticRegression`. Only the noise of
        ``"average"`` has the body's own shape; others have a ball's, in the coordinates that suit
        the schema. ``"auto"`` takes the schema's for ``"average"`` alone, of two classes, without
        a delta or a ``prior``. Asked of others it needs the encoder of all parties.
    classes : list, optional
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    ledger, account, random_state
        As in :class:`PrivateLogisticRegression`.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercept.
    party_ : array of shape (n_parties,)
        The parties, sorted.
    party_weights_ : array of shape (n_parties,)
        Their shares of all records.
    classes_, guarantee_, receipt_, simulated_
        As in :class:`PrivateLogisticRegression`; all rounds have one receipt.

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
    declared_samples: int | None = None
    prior: Experts = None
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
        # How rows are encoded may follow from the number of parties.
        self.party_ = party_codes(ids, 0 if ids is None else len(ids))[0]
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
        if self.declared_samples is not None:
            sizes = Sizes.declared(sizes.counts, self.declared_samples)
        encoder = self._encoder(facts.n_samples)
        if encoder is not None and not encodes(encoder, facts.features):
            encoder = None
        # Whoever asks for a price names no columns: those of a body are the encoder's.
        shaped = encoder is not None and encoder.shaped
        width = len(encoder.names) if encoder is not None and shaped else facts.n_features
        protocol = self._protocol(width, facts.n_classes, encoder)
        return CollaborativePlan(self.method, protocol, sizes)

    def protocol(self, n_features: int, n_classes: int = 2) -> Collaboration:
        """Return what parties are asked, whatever their number and sizes."""
        check_parameters(self)
        encoder = self._encoder()
        if encoder is not None and encoder.shaped and len(encoder.names) != n_features:
            raise InvalidParameter("n_features must be the number of columns that schema encodes.")
        return self._protocol(n_features, n_classes, encoder)

    def _protocol(
        self, n_features: int, n_classes: int, encoder: SchemaEncoder | None
    ) -> Collaboration:
        iterates = self.method not in ("ofaa", "sums") or (self.method == "sums" and self.delta > 0)
        if self.rounds != 1 and not iterates:
            raise InvalidParameter(
                f"rounds must be 1 for method={self.method!r}, whose parties release only once."
            )
        if self.combine != "mean" and self.method in ("ofaa", "sums"):
            raise InvalidParameter(f"combine must be 'mean' for method={self.method!r}: it adds.")
        opinion = opinion_of(self.prior, self.prior_intercept, encoder, n_classes)
        space = self._space(n_features, encoder)
        prior = opinion.prior(
            self.data_norm,
            n_features,
            self.feature_scale,
            n_classes=n_classes,
            encoder=getattr(space, "encoder", None),
        )
        checks = self.prior_check and self.method == "average"
        checked = checks and prior is not None and prior.deviation > 0
        if prior is None and np.any(opinion.intercept):
            prior = Prior(np.zeros((np.size(opinion.intercept), n_features)), opinion.intercept)
        common: dict[str, Any] = {
            "frame": space,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_classes": n_classes,
            "alpha": self.alpha,
            "cap": slope_of(self.loss, n_classes),
            "feature_scale": self.feature_scale,
            "prior": prior,
        }
        if self.method == "ofaa":
            return Expansion(**common)
        if self.method == "sums":
            return self._sums(common, opinion.intercept, encoder)
        return Averaging(
            **common,
            rounds=self.rounds,
            combine=self.combine,
            stop_below=self.stop_below,
            perturb="output" if self.method == "laplace" else "objective",
            checked=checked,
        )

    def _space(
        self, n_features: int, encoder: SchemaEncoder | None
    ) -> Coordinates | SchemaGeometry:
        """Return the public coordinates: a ball's, or those of an encoder's body."""
        if encoder is not None and encoder.shaped and self.noise != "ball":
            return SchemaGeometry(encoder, self.fit_intercept, _LEAVES[self.method])
        if self.noise == "schema":
            raise InvalidParameter(
                "noise='schema' needs schema=: a PublicSchema of raw columns, or where the number "
                "of rows is not known yet the encoder (of form 'linear' or 'curves') by which all "
                "parties encode them."
            )
        return linear_frame(
            n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            norm="l1" if self.method == "ofpa" else "l2",
        )

    def _form(self, n_samples: int) -> Form:
        """Return how a schema's columns are encoded: a rule of public facts."""
        assert isinstance(self.schema, PublicSchema)
        count = n_samples if self.declared_samples is None else HiddenSize(self.declared_samples)
        # The average of M parties has M times the noise variance of one that holds all records.
        parties = len(getattr(self, "party_", "1"))
        epsilon = self.epsilon / self.rounds / math.sqrt(parties)
        n_classes = declared_number(self.schema, self.classes)
        allowed = allowance(epsilon, count, loss=self.loss, n_classes=n_classes)
        each = self.prior is not None or self.feature_scale is not None
        each |= self.method != "average" or self.delta > 0
        return choose_form(self.schema, self.noise, allowed, each=each)

    def _sums(
        self, common: dict[str, Any], intercept: ArrayLike, encoder: SchemaEncoder | None
    ) -> Collaboration:
        n_classes, rate = common["n_classes"], special.expit(np.asarray(intercept, np.float64))
        spread = float(rate * (1 - rate)) if n_classes == 2 else 1 / n_classes
        common |= {
            "colluding": self.colluding,
            "reserve": self.reserve,
            "curvature": min(0.2, 0.88 * spread),
            "second_moments": None if encoder is None else encoder.mean_squares(),
        }
        if not self.delta:
            return OneMessage(**common)
        return GradientRounds(**common, rounds=_ROUNDS if self.rounds == 1 else self.rounds)

    def _keep(self, plan: CollaborativePlan, learned: Any) -> None:
        super()._keep(plan, learned)
        counts = np.array(list(plan.sizes.counts.values()), dtype=np.float64)
        self.party_weights_ = counts / counts.sum()
