"""Many parties with few rows each: one model, private for every whole party."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
)

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import LinearPrediction, PrivateClassifier, check_choice
from confrere.estimators.labels import declared_classes
from confrere.estimators.linear_plan import linear_frame
from confrere.estimators.multiparty_local import (
    Blocks,
    local_of,
    tally_estimators,
    tally_linear,
    total_uploads,
)
from confrere.estimators.multiparty_parties import (
    OnFaulty,
    Parties,
    apply_policy,
    dense,
    group_rows,
    stack_tables,
    tables_of_parties,
)
from confrere.estimators.releasing import release_of
from confrere.federation.voting import Method, Released, Voting
from confrere.guarantee import Guarantee, check_epsilon, check_positive
from confrere.ledger import Ledger
from confrere.maths.voting import Tally
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.mechanisms.party_statistic import Radius
from confrere.model import Facts, Linear
from confrere.noise.sources import RandomSource, Seed
from confrere.release import Release
from confrere.schema import PublicSchema


class MultipartyClassifier(LinearPrediction, PrivateClassifier):
    """Learning from many parties' classifiers (Hamm et al., Algorithms 1 and 2, made sharper).

    Every party trains on its own rows and votes on unlabelled auxiliary rows; the votes' sums make
    one linear model. All data of a party are protected together. The classifier simulates the
    parties in this process; the same protocol runs between real organisations, see
    :func:`confrere.federation.poll`.

    Parameters
    ----------
    method : {"statistic", "moments", "soft", "vote", "average"}, default="statistic"
        Where noise goes. ``"statistic"``: on the one vector through which votes enter the risk of
        public auxiliary rows; training is post-processing. ``"moments"``: on the same vector of the
        parties' own labels, which needs no local classifiers and comes near to learning from all
        rows together where parties are many or epsilon is large. ``"soft"``: on the model of the
        votes' fractions. ``"vote"``: on the model of their majority, as a baseline.
        ``"average"``: on the mean of the parties' own weights, without auxiliary rows.
    epsilon : float, default=1.0
        Price of one ``fit``, for each whole party.
    data_norm : float, default=1.0
        Declared bound on the norm of a row (after ``feature_scale``); longer rows are clipped.
    alpha : float or "auto", default="auto"
        Ridge of the released model on the mean loss of the auxiliary rows; for ``"average"`` of the
        parties' own. ``"auto"`` is a public rule, for ``"statistic"`` one that also looks at the
        released statistic.
    local : classifier, list or callable, optional
        What parties train: a scikit-learn classifier that is cloned for each, one per party in the
        order of their names, or a function from a party's name to one. By default logistic
        regression, all parties at once. Not for ``"average"`` and ``"moments"``.
    local_alpha : float, default=1e-4
        Ridge of the default local classifier on the mean loss of a party's rows.
    radius : {"ellipsoid", "spectral", "unit"}, default="ellipsoid"
        What noise owes to the public auxiliary rows: its shape, its size, or nothing. ``"soft"``
        and ``"vote"`` take the size for the shape.
    auxiliary_private : bool, default=False
        Hide one auxiliary row together with the party, for ``"soft"`` and ``"vote"``.
    normalise : bool, default=False
        For ``"average"``: average directions.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` are the published sensitivities: sound, with more noise.
    on_faulty : {"leave-out", "refuse"}, default="leave-out"
        Parties with values that are not finite, undeclared labels or other columns: count them as
        split votes (as zero weights) and log their names, or raise.
    fit_intercept : bool, default=True
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float, default=0.4
        That constant, between 0 and 1.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping.
    classes : list, optional
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    memory : float, default=256.0
        Megabytes for what is computed in blocks, beside the rows themselves.
    ledger : Ledger, optional
        Where the price is charged; by default the process's own.
    account : str, optional
        The account in it; may be left out if there is only one.
    random_state : int or generator, optional
        Simulation only: the result is marked simulated and cannot be released.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    alpha_ : float
        The ridge behind them.
    statistic_ : array
        For ``"statistic"`` and ``"moments"``: what was released; every other model of it costs
        nothing more.
    n_parties_ : int
        Public number of parties.
    classes_ : array
        The declared label set, sorted.
    guarantee_ : Guarantee
        What was promised.
    receipt_ : Receipt
        The ledger entry that paid for it.
    simulated_ : bool
        Whether the noise came from a seed.

    Privacy
    -------
    Unit : party
    Neighbours : replace all rows of one party, and how many they are
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : the number of parties, n_features, the label set, the auxiliary rows, every parameter
    Releases : coef_, intercept_, statistic_
    Proof : docs/proofs/multiparty.md

    Notes
    -----
    ``"statistic"`` rests on docs/proofs/statistic.md, ``"moments"`` on docs/proofs/moments.md and
    ``"average"`` on docs/proofs/party_average.md. Whoever runs ``fit`` is trusted with what parties
    send and with adding the noise. Local classifiers must learn from their party's rows alone.

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

    statistic_: NDArray[np.float64]

    def __init__(
        self,
        *,
        method: Method = "statistic",
        epsilon: float = 1.0,
        data_norm: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        local: Any = None,
        local_alpha: float = 1e-4,
        radius: Radius = "ellipsoid",
        auxiliary_private: bool = False,
        normalise: bool = False,
        calibration: Calibration = "tight",
        on_faulty: OnFaulty = "leave-out",
        fit_intercept: bool = True,
        intercept_scale: float = 0.4,
        feature_scale: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        memory: float = 256.0,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.alpha = alpha
        self.local = local
        self.local_alpha = local_alpha
        self.radius = radius
        self.auxiliary_private = auxiliary_private
        self.normalise = normalise
        self.calibration = calibration
        self.on_faulty = on_faulty
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.feature_scale = feature_scale
        self.classes = classes
        self.memory = memory
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_parties: int, n_features: int, n_classes: int = 2) -> Guarantee:  # noqa: ARG002
        """Return what one ``fit`` of so many parties would spend; touches no data."""
        return self._plan(n_features, n_classes, None).guarantee()

    def fit(
        self, X: Any, y: Any, party: ArrayLike | None = None, auxiliary: Any = None
    ) -> MultipartyClassifier:
        """Charge ``epsilon``, then release a model of all parties' votes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features), or list of tables
            Rows of all parties; or one table per party.
        y : array of shape (n_samples,), or list of arrays
            Labels.
        party : array of shape (n_samples,), or one name per table, optional
            Whose row it is. By default every row (every table) is a party of its own.
        auxiliary : array or sparse matrix of shape (n_auxiliary, n_features)
            Unlabelled rows that parties vote on, or that are learned with; public, unless
            ``auxiliary_private``. Not used by ``"average"``.
        """
        self._check_parameters()
        ledger = self._open_ledger()
        parties, classes = self._parties(X, y, party, auxiliary)
        voted = self._auxiliary(auxiliary)
        plan = self._plan(parties.X.shape[1], max(2, len(classes)), voted)
        plan.check(len(parties))
        if self.local is not None:
            local_of(self.local, 0, len(parties), parties.names[0])
        apply_policy(parties, self.on_faulty)
        # Code of others may fail on anything: it runs, without noise, before anything is spent.
        tally = None if self.local is None else self._tally(plan, parties, classes)
        meaning = self._meaning(classes)
        made: list[Released] = []

        def act(source: RandomSource) -> Linear:
            made.append(self._run(plan, parties, tally, source))
            coef, intercept = plan.coefficients(made[0].weights)
            facts = self._public_facts(plan, len(parties), made[0].alpha)
            return Linear(coef=coef, intercept=intercept, facts=facts, **meaning)

        self.model_ = self._spend(
            ledger,
            plan.guarantee(),
            act,
            purpose="fit MultipartyClassifier",
            detail={"method": self.method, "parties": len(parties)},
        )
        self.classes_ = classes
        self.n_parties_ = len(parties)
        self.alpha_ = made[0].alpha
        if made[0].statistic is not None:
            self.statistic_ = made[0].statistic
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them."""
        return release_of(self, "multiparty", schema)

    def faults(
        self, X: Any, y: Any, party: ArrayLike | None = None, auxiliary: Any = None
    ) -> dict[Any, str]:
        """Return the parties that ``fit`` would leave out, and why; spends nothing.

        About the data themselves: for whoever holds them, not to be published.
        """
        parties, _ = self._parties(X, y, party, auxiliary)
        names = parties.names.tolist()
        return {names[k]: why for k, why in sorted(parties.faults.items())}

    def _tally(self, plan: Voting, parties: Parties, classes: NDArray[Any]) -> Tally:
        return tally_estimators(
            parties, plan.auxiliary, classes, self.local, on_faulty=self.on_faulty
        )

    def _run(
        self, plan: Voting, parties: Parties, tally: Tally | None, source: RandomSource
    ) -> Released:
        blocks = Blocks(float(self.memory), plan.frame.size, plan.n_classes)
        if not plan.votes:
            total = total_uploads(parties, plan.frame, blocks, plan.mean(len(parties)))
            return plan.release_mean(total, len(parties), source=source)
        if tally is None:
            tally = tally_linear(parties, plan.frame, plan.rows, blocks, alpha=plan.local_alpha)
        return plan.release_votes(tally, source=source)

    def _parties(
        self, X: Any, y: Any, party: ArrayLike | None, auxiliary: Any
    ) -> tuple[Parties, NDArray[Any]]:
        simulated = self.random_state is not None
        if tables_of_parties(X):
            labels = np.concatenate([np.ravel(part) for part in y])
            classes = declared_classes(self.classes, labels, simulated=simulated)
            width = None if auxiliary is None else int(np.shape(auxiliary)[1])
            parties = stack_tables(X, y, party, classes, width)
            self._checked(parties.X[:1])
            return parties, classes
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
        check_consistent_length(rows, labels)
        if self.on_faulty == "refuse":
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        classes = declared_classes(self.classes, y, simulated=simulated)
        return group_rows(rows, labels, party, classes), classes

    def _auxiliary(self, auxiliary: Any) -> NDArray[np.float64] | None:
        if self.method == "average" or auxiliary is None:
            return None
        rows = self._checked(auxiliary, accept_sparse="csr", dtype=np.float64, reset=False)
        return dense(rows)

    def _check_parameters(self) -> None:
        check_epsilon(self.data_norm, "data_norm")
        check_positive(self.memory, "memory")
        check_choice(self.on_faulty, "on_faulty", ("leave-out", "refuse"))
        if self.local is not None and self.method in ("average", "moments"):
            raise InvalidParameter(
                f"local: method={self.method!r} has no use for other classifiers (only weights of "
                "the built-in one have a bound to average under); use method='statistic'."
            )

    def _plan(
        self, n_features: int, n_classes: int, auxiliary: NDArray[np.float64] | None
    ) -> Voting:
        self._check_parameters()
        frame = linear_frame(
            n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
        )
        return Voting(
            frame=frame,
            epsilon=self.epsilon,
            method=self.method,
            auxiliary=auxiliary,
            n_classes=n_classes,
            alpha=self.alpha,
            local_alpha=self.local_alpha,
            radius=self.radius,
            auxiliary_private=self.auxiliary_private,
            normalise=self.normalise,
            calibration=self.calibration,
        )

    def _public_facts(self, plan: Voting, n_parties: int, alpha: float) -> Facts:
        return Facts(
            method=self.method,
            parties=n_parties,
            alpha=float(alpha),
            n_auxiliary=None if plan.auxiliary is None else len(plan.auxiliary),
            **plan.frame.learned_with(),
        )
