"""Several organisations, one model: every one releases once, a server averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confrere.errors import InvalidData, InvalidParameter
from confrere.estimators.base import (
    LinearPrediction,
    PrivateClassifier,
    check_choice,
    check_finite,
)
from confrere.estimators.linear_plan import linear_frame
from confrere.estimators.releasing import release_of
from confrere.federation import (
    Averaging,
    Books,
    Expansion,
    LocalFederation,
    PartyGroup,
    average,
    expand,
)
from confrere.federation.sizes import Sizes
from confrere.guarantee import Guarantee, Neighbours, check_epsilon
from confrere.ledger import Ledger
from confrere.mechanisms.objective_perturbation import Calibration
from confrere.model import Facts, Linear
from confrere.noise.sources import RandomSource, Seed
from confrere.release import Release
from confrere.schema import PublicSchema

Method = Literal["average", "ofpa", "ofaa", "laplace"]


class CollaborativeClassifier(LinearPrediction, PrivateClassifier):
    """Logistic regression of several parties through a central server (OFPA, OFAA made sound).

    Every party releases once (or once per round) about its own rows; the server averages, which
    is post-processing. The classifier simulates the parties in this process; the same protocols
    run between real organisations, see :mod:`confrere.federation`.

    Parameters
    ----------
    method : {"average", "ofpa", "ofaa", "laplace"}, default="average"
        ``"average"``: objective perturbation with L2 noise, weighted average. ``"ofpa"``: the
        same with Laplace noise; ``data_norm`` is then a bound on the L1 norm. ``"ofaa"``: noisy
        coefficients of the expanded loss, summed and minimised. ``"laplace"``: noise on every
        party's minimiser, as a baseline.
    epsilon : float, default=1.0
        Price of one ``fit``, for every party and thus for every record.
    data_norm : float, default=1.0
        Declared bound on the norm of a row (after ``feature_scale``); longer rows are clipped.
    alpha : float or "auto", default="auto"
        Ridge on the mean loss. ``"auto"`` is a public rule with the number of all parties'
        records.
    rounds : int, default=1
        More than one divides epsilon; each round then shrinks towards the average of the one
        before. For ``"average"`` and ``"ofpa"``.
    loss : {"capped", "logistic"}, default="capped"
        ``"capped"`` goes on linearly where the slope reaches one half: about half the noise. Not
        used by ``"ofaa"``.
    calibration : {"tight", "printed"}, default="tight"
        ``"printed"`` is the looser published formula, for ``method="average"`` and
        ``loss="logistic"``.
    fit_intercept : bool, default=True
        Add a public constant inside the norm bound: regularised and noised like the rest.
    intercept_scale : float, default=0.4
        That constant, between 0 and 1.
    feature_scale : array of shape (n_features,), optional
        Public factors (importances) that multiply the columns before clipping.
    prior : array of shape (n_features,), optional
        Public coefficients to shrink towards, in the units of ``coef_``. Not for ``"laplace"``.
    prior_intercept : float, default=0.0
        Public intercept to shrink towards.
    classes : list of two, optional
        The public label set. Without it labels must be 0 and 1, booleans or a pandas categorical.
    ledger : Ledger, optional
        Where the price is charged; by default the process's own.
    account : str, optional
        The account in it; may be left out if there is only one.
    random_state : int or generator, optional
        Simulation only: the result is marked simulated and cannot be released.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Released weights, for rows as given to ``fit``.
    intercept_ : array of shape (1,)
        Released intercept.
    party_ : array of shape (n_parties,)
        The parties, sorted.
    party_weights_ : array of shape (n_parties,)
        Their shares of all records.
    classes_ : array
        The declared label set, sorted.
    guarantee_ : Guarantee
        What was promised.
    receipt_ : Receipt
        The ledger entry that paid for it, all rounds together.
    simulated_ : bool
        Whether the noise came from a seed.

    Privacy
    -------
    Unit : record
    Neighbours : replace one row of ``(X, y)``, within its party
    Guarantee : ``epsilon``-DP, pure
    Spends : ``epsilon`` on ``account``, once per ``fit``, before noise is drawn
    Public : n_samples of every party, n_features, the label set, every parameter
    Releases : coef_, intercept_, and every party's own release behind them
    Proof : docs/proofs/averaging.md

    Notes
    -----
    ``"ofaa"`` rests on docs/proofs/functional_mechanism.md and ``"laplace"`` on
    docs/proofs/output_perturbation.md. A person with rows at several parties pays epsilon at each.

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

    def __init__(
        self,
        *,
        method: Method = "average",
        epsilon: float = 1.0,
        data_norm: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        rounds: int = 1,
        loss: Literal["capped", "logistic"] = "capped",
        calibration: Calibration = "tight",
        fit_intercept: bool = True,
        intercept_scale: float = 0.4,
        feature_scale: ArrayLike | None = None,
        prior: ArrayLike | None = None,
        prior_intercept: float = 0.0,
        classes: ArrayLike | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        random_state: Seed | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.data_norm = data_norm
        self.alpha = alpha
        self.rounds = rounds
        self.loss = loss
        self.calibration = calibration
        self.fit_intercept = fit_intercept
        self.intercept_scale = intercept_scale
        self.feature_scale = feature_scale
        self.prior = prior
        self.prior_intercept = prior_intercept
        self.classes = classes
        self.ledger = ledger
        self.account = account
        self.random_state = random_state

    def price(self, n_samples: int, n_features: int) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data."""
        return self._plan(n_features).guarantee(_sizes(["all"], [n_samples]))

    def fit(self, X: Any, y: Any, party: ArrayLike | None = None) -> CollaborativeClassifier:
        """Charge ``epsilon``, then release a model of all parties' rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows of all parties.
        y : array of shape (n_samples,)
            Labels.
        party : array of shape (n_samples,), optional
            Whose row it is: a public fact. By default all rows are one party's.
        """
        self._check_parameters()
        ledger = self._open_ledger()
        rows, labels, classes = self._validate_binary(X, y)
        plan = self._plan(rows.shape[1])
        parties, codes = _parties(party, len(labels))
        order = np.argsort(codes, kind="stable")
        sizes = np.bincount(codes, minlength=len(parties))
        names = tuple(str(name) for name in parties)
        guarantee = plan.guarantee(_sizes(names, sizes.tolist()))

        group = PartyGroup(
            names,
            rows[order],
            labels[order],
            np.concatenate([[0], np.cumsum(sizes)]),
            Books(prepaid=guarantee),
            self.random_state,
        )

        meaning = self._meaning(classes)

        def act(_: RandomSource) -> Linear:
            federation = LocalFederation(group, on_error="raise")
            if isinstance(plan, Expansion):
                outcome = expand(federation, plan)
            else:
                outcome = average(federation, plan)
            return Linear(
                coef=outcome.coef[None, :],
                intercept=np.array([outcome.intercept]),
                facts=Facts(
                    method=self.method,
                    parties=len(parties),
                    rounds=self.rounds,
                    n_samples=len(labels),
                    **plan.frame.learned_with(),
                ),
                **meaning,
            )

        self.model_ = self._spend(
            ledger,
            guarantee,
            act,
            purpose="fit CollaborativeClassifier",
            detail={"method": self.method, "parties": len(parties), "rounds": self.rounds},
        )
        self.classes_ = classes
        self.party_ = parties
        self.party_weights_ = sizes / sizes.sum()
        return self

    def to_release(self, schema: PublicSchema | None = None) -> Release:
        """Return what may leave: the released numbers and the public facts about them."""
        return release_of(self, "collaborative", schema)

    def _check_parameters(self) -> None:
        check_epsilon(self.epsilon)
        check_epsilon(self.data_norm, "data_norm")
        check_finite(self.prior_intercept, "prior_intercept")
        check_choice(self.method, "method", ("average", "ofpa", "ofaa", "laplace"))
        check_choice(self.loss, "loss", ("capped", "logistic"))
        check_choice(self.calibration, "calibration", ("tight", "printed"))
        if not (isinstance(self.alpha, str) and self.alpha == "auto"):
            check_epsilon(self.alpha, "alpha")
        if self.calibration == "printed" and (self.method, self.loss) != ("average", "logistic"):
            raise InvalidParameter(
                "calibration='printed' was published for L2 noise and the logistic loss: use it "
                "with method='average' and loss='logistic'."
            )
        if self.rounds != 1 and self.method not in ("average", "ofpa"):
            raise InvalidParameter(
                f"rounds must be 1 for method={self.method!r}, whose parties release only once."
            )

    def _plan(self, n_features: int) -> Averaging | Expansion:
        self._check_parameters()
        frame = linear_frame(
            n_features,
            data_norm=self.data_norm,
            fit_intercept=self.fit_intercept,
            intercept_scale=self.intercept_scale,
            feature_scale=self.feature_scale,
            norm="l1" if self.method == "ofpa" else "l2",
        )
        has_prior = self.prior is not None or self.prior_intercept != 0
        prior = frame.weights(self.prior, self.prior_intercept) if has_prior else None
        if self.method == "ofaa":
            return Expansion(frame=frame, epsilon=self.epsilon, alpha=self.alpha, prior=prior)
        return Averaging(
            frame=frame,
            epsilon=self.epsilon,
            alpha=self.alpha,
            cap=0.5 if self.loss == "capped" else 1.0,
            calibration=self.calibration,
            prior=prior,
            rounds=self.rounds,
            perturb="output" if self.method == "laplace" else "objective",
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.classifier_tags.multi_class = False
        return tags


def _sizes(names: Sequence[str], counts: Sequence[int]) -> Sizes:
    return Sizes(dict(zip(names, counts, strict=True)), Neighbours.REPLACE_ONE, {})


def _parties(party: ArrayLike | None, n_samples: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the parties, sorted, and the position of every row's party among them."""
    if party is None:
        return np.array(["all"]), np.zeros(n_samples, dtype=np.intp)
    ids = np.asarray(party)
    if ids.shape != (n_samples,):
        raise InvalidData("party must name one party per row of X.")
    try:
        parties, codes = np.unique(ids, return_inverse=True)
    except TypeError:
        raise InvalidData("party must hold names of one type.") from None
    return parties, codes
