"""Classifiers: of one organisation, from nothing or from another's release; of several together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from confrere.data.cells import is_table, party_column
from confrere.data.encoding import SchemaEncoder
from confrere.data.tables import RowTable
from confrere.errors import InvalidData, InvalidParameter, SimulatedRelease
from confrere.estimators.base import (
    NO_LABELS,
    AutoCount,
    Bound,
    Bounds,
    Count,
    Experts,
    LinearClassifier,
    Predicting,
    PrivateClassifier,
    Relation,
    Ridge,
    Ridges,
    RowEngine,
    Spare,
    Weight,
    Weights,
    check_parameters,
    estimator,
    sorted_labels,
)
from confrere.kernel.guarantee import Guarantee
from confrere.methods.asking import Sizes, party_codes
from confrere.methods.average import CollaborativePlan
from confrere.methods.design import AddRemove, Purpose, design_protocol
from confrere.methods.geometry import GAIN, GeometryName
from confrere.methods.plan import LabelledTable, PublicFacts
from confrere.methods.votes import (
    Method,
    MultipartyPlan,
    Parties,
    Voting,
    apply_policy,
    dense,
    group_rows,
    local_of,
)
from confrere.model import LowLevelModel, Model
from confrere.release import Release, load_rehearsal, load_release


@estimator
class PrivateLogisticRegression(LinearClassifier):
    """Private logistic regression by objective perturbation (PLR, Algorithm 1).

    Parameters
    ----------
    alpha : float, "auto" or array of shape (n_features,)
        Ridge on the mean loss (the papers' lambda). ``"auto"`` is a public rule of epsilon, delta,
        n_samples and n_features. One number per column, as it is learned from: what is shrunk more
        has less noise. The intercept has the smallest of them; where that is raised to the floor
        ``2 / epsilon`` of the summed ridge, all are.
    engine : {"loop", "joblib", "dask"}, str or engine
        Who reads the rows: one partition after the other (the default), threads, a Dask cluster on
        this machine, or the address of a scheduler such as ``"tcp://host:8786"``. The bits of the
        result do not depend on it.

    Notes
    -----
    :Proof: docs/proofs/objective_perturbation.md and, for ``delta``, docs/proofs/gaussian.md; for
        noise that is shaped by a schema docs/proofs/geometry.md

    Examples
    --------
    >>> from confrere import PrivateLogisticRegression
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(n_samples=2000, random_state=0)
    >>> model = PrivateLogisticRegression(epsilon=1.0, data_norm=5.0, random_state=0).fit(X, y)
    >>> print(model.guarantee_)
    1-DP per record (replace-one)
    """

    prior: Experts = "auto"
    alpha: Ridges = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    purpose: Purpose = "prediction"
    engine: RowEngine = None
    data_norm: Bound = 1.0

    _dtype: ClassVar[object] = [np.float64, np.float32]
    _kind = "plr"


SourceLike: TypeAlias = Release | str | os.PathLike[str]


def opened(source: Any, keys: Any, *, simulation: bool = False) -> tuple[Release, ...]:
    """Return releases, verified where they are read; only a simulation reads rehearsals."""
    listed = isinstance(source, Sequence) and not isinstance(source, str)
    read = load_rehearsal if simulation else load_release
    found = []
    for item in source if listed else [source]:
        paths = isinstance(item, str | os.PathLike)
        found.append(read(item, require_signature_from=keys) if paths else item)
        if not isinstance(found[-1], Release):
            raise InvalidParameter(
                "source must be a confrere.release.Release, a path to one, or several of them: of "
                "a classifier model.to_release(), or the folder that its save() wrote."
            )
    if not found:
        raise InvalidParameter("source must be given: a release, or its path.")
    return tuple(found)


@estimator
class ReleasedClassifier(Predicting, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Another organisation's released model, used as it is (SourceD).

    It is ready without ``fit``, which ignores its data, spends nothing and needs no account. A
    release that carries its encoder takes raw tables, and predicts the data's own labels. One
    without takes rows that were encoded before: arrays, in the order of the release's features.

    Parameters
    ----------
    source : Release or path
        What was released.
    source_keys : mapping of party to public key
        Signatures that a source read from disk must carry.

    Attributes
    ----------
    classes_ : array
        The source's label set.
    """

    source: SourceLike | None = None
    source_keys: Mapping[str, object] | None = None

    def fit(self, X: object = None, y: object = None) -> ReleasedClassifier:  # noqa: ARG002
        """Read the release; the data are not looked at."""
        release, *_ = opened(self.source, self.source_keys)
        self._opened = (self.source, release.model)
        return self

    @property
    def model_(self) -> Model:
        """What was released; read once."""
        if getattr(self, "_opened", (self,))[0] is not self.source:
            self.fit()
        return self._opened[1]

    @property
    def classes_(self) -> NDArray[np.generic]:
        """The labels, sorted."""
        return sorted_labels(self.model_)

    def _rows(self, X: object) -> Any:
        if self.model_.encoder is None and is_table(X):
            raise InvalidData(
                "the release carries no encoder, so it cannot read a table; encode the rows as its "
                "maker did, and give an array."
            )
        return X if self.model_.encoder is None else self.model_.encoded(X)

    def __sklearn_is_fitted__(self) -> bool:
        return self.source is not None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


@estimator
class FromSources(PrivateClassifier):
    """A private classifier that starts from released ones.

    Attributes
    ----------
    sources_ : tuple of Release
        What was started from, each with its own guarantee.
    expected_gain_ : float or None
        How much area the target's records are expected to add to the sources, of two classes.

    Notes
    -----
    :Neighbours: replace one row of the target's ``(X, y)``; with :class:`AddRemove` one comes or
        goes
    :Guarantee: ``epsilon``-DP, pure, for the target's records (with a ``delta``
        ``(epsilon, delta)``-DP); the sources' hold as released
    :Proof: docs/proofs/transfer.md
    """

    source: SourceLike | Sequence[SourceLike] | None = None
    source_keys: Mapping[str, object] | None = None

    _source_kinds: ClassVar[tuple[str, ...]]

    def _pay_and_learn(self, plan: Any, data: LabelledTable) -> Self:
        """Keep what records are expected to add to the sources, and warn where that is little."""
        fit = getattr(plan, "likely", plan)
        gain = None if fit.expected is None else fit.expected.gain(fit.known)
        self.expected_gain_, self._instead = gain, fit.instead
        if self.random_state is None and gain is not None and gain < GAIN:
            told = "the source as it is would be the model for nothing."
            if fit.instead is not None:
                told = "that is the model, and nothing is charged."
            added = f"{gain:.4f} is what these records are expected to add to the source"
            self._warn(f"{added}; {told}")
        if fit.instead is None:
            return super()._pay_and_learn(plan, data)
        self.guarantee_, self.simulated_ = fit.instead.guarantee, fit.instead.simulated
        self.receipt_ = None  # type: ignore[assignment]
        self._keep(plan, None, fit.instead.model)
        return self

    def to_release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return what may leave; where a source is the model as it is, its very release."""
        check_is_fitted(self)
        return super().to_release(encoder) if self._instead is None else self._instead

    def _sources(self) -> tuple[Release, ...]:
        simulation, kinds = self.random_state is not None, self._source_kinds
        found = opened(self.source, self.source_keys, simulation=simulation)
        for item in found:
            if item.simulated and not simulation:
                raise SimulatedRelease(
                    "source was made with seeded noise, which protects nobody; ask for a real "
                    "release, or give random_state to simulate the target as well."
                )
            if item.kind not in kinds:
                told = " or ".join(map(repr, kinds))
                raise InvalidParameter(f"source is of kind {item.kind!r}; this needs {told}.")
        return found


@estimator
class TransferClassifier(FromSources, LinearClassifier):
    """One private model around a released one, where that is expected to gain anything.

    The source's release is public once it is released: starting from it costs the target nothing
    and the source nothing more. Of two classes a forecast from public facts says what the target's
    records would add. Where that is less than .002 of area under the curve, the source is the model
    as it is: nothing is drawn, and nothing charged.

    Parameters
    ----------
    eta : float
        Fit and pay in any case, as SimComb (and PPHTL): shrink towards ``(1 - eta)`` times the
        source's weights, after a paid answer to how far they hold on these records.
    alpha : float, "auto" or array of shape (n_features,)
        As in :class:`PrivateLogisticRegression`. The automatic ridge follows from what the sources'
        records and noise leave unknown.
    geometry : {"auto", "schema", "l2"}
        The sensitivity set that noise is made for: that of the sources, unless ``"l2"`` is asked.

    Attributes
    ----------
    expected_auc_ : ExpectedArea or None
        What is expected of two classes' model, from public facts.
    receipt_ : Receipt or None
        The ledger entry that paid for it; None where the source is the model as it is.

    Notes
    -----
    :Spends: ``epsilon`` of ``budget``, once per ``fit``, before noise is drawn; or nothing
    :Public: n_samples, n_features, the label set, the sources, every parameter
    """

    eta: Weight = None
    alpha: Ridges = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    data_norm: Bound = 1.0

    _kind = "transfer"
    _source_kinds = ("plr", "transfer", "simcomb", "collaborative", "multiparty")
    _sparse = False


class HighLevelModel(NamedTuple):
    """The released combination of meta features ``tanh(score / 2) / sqrt(groups)``."""

    coef: NDArray[np.float64]
    intercept: float


@estimator
class StackingClassifier(PrivateClassifier):
    """What every stacking classifier takes.

    Parameters
    ----------
    n_groups : int
        How many groups, or parts of the rows, to make.
    combiner : {"stack", "vote", "weighted_vote"}
        How low-level models are combined. Votes need no part of the rows for a high level, and are
        weighted by importance for groups of features only.
    alpha : float or "auto"
        Ridge of the low level on the mean loss, for rows in the unit ball.
    split_seed : int or None
        Public seed of the split of rows and of random groups; None splits rows by their index.
    neighbours : "replace-one" or AddRemove
        ``AddRemove(n_samples)`` hides the number of rows, of which that is a public stand-in: every
        row draws its part of the split.
    classes : list
        The public label set. Of more than two labels every low-level model is a softmax
        regression, and the high level weighs groups, the same for all classes.

    Attributes
    ----------
    low_level_ : tuple of LowLevelModel
        Released models with their groups or parts, importances and shares.
    high_level_ : HighLevelModel or None
        The released combination; None for votes and for a single model.

    Notes
    -----
    :Releases: ``low_level_``, ``high_level_``
    """

    combiner: Literal["stack", "vote", "weighted_vote"] = "stack"
    split_seed: int | None = 0
    alpha: Ridge = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    purpose: Purpose = "prediction"

    _sparse = False

    @property
    def low_level_(self) -> tuple[LowLevelModel, ...]:
        """Released models with their groups, importances and shares."""
        return tuple(self.model_.groups)

    @property
    def high_level_(self) -> HighLevelModel | None:
        """The released combination; None for votes and for a single group."""
        if self.model_.combine != "stack":
            return None
        return HighLevelModel(self.model_.coef, self.model_.intercept)


@estimator
class SampleStackingClassifier(StackingClassifier):
    """Private stacking over parts of the samples (PST-S, Algorithm 2).

    Rows are split, without looking at them, into ``n_groups`` parts and one more for the high
    level; every part pays for its own model only, so each gets the whole budget.

    Notes
    -----
    :Public: n_samples, n_features, the label set, the split, every parameter
    :Proof: docs/proofs/sample_stacking.md
    """

    n_groups: Count = 5
    combiner: Literal["stack", "vote"] = "stack"
    prior: Experts = "auto"
    geometry: GeometryName = "l2"
    data_norm: Bound = 1.0

    _kind = "pst-s"


@estimator
class FeatureStackingClassifier(StackingClassifier):
    """Private stacking over feature groups (PST-F, Algorithm 3); importances make it PST-F(W).

    One private model per group of features is learned on one part of the rows, and a private
    logistic regression on the other part combines them. Important groups get a larger share of the
    budget, hence less noise.

    Parameters
    ----------
    importance : array of shape (n_features,)
        Public importances, >= 0: features are grouped by them (W). Without them groups are random
        and equal (U). A schema's own importances are taken unless others are given.
    groups : sequence of int arrays or of lists of names
        Declared groups, every column exactly once; by the names of its columns where there is a
        schema.
    alpha : float, "auto" or a sequence of them
        Ridge on the mean loss of the low level; one for all groups in use, or one for each.
    geometry : {"auto", "schema", "l2"}
        As in :class:`PrivateLogisticRegression`. In the schema's, groups are of whole columns of
        the schema, each with a sensitivity set of its own: ``importance`` and ``groups`` then speak
        of these. ``"auto"`` takes the L2 ball if ``importance``, ``groups`` by positions, a
        ``prior`` or a ``delta`` is given.

    Notes
    -----
    :Public: n_samples, n_features, the label set, groups, importances, every parameter
    :Proof: docs/proofs/feature_groups.md
    """

    n_groups: Count = 5
    importance: ArrayLike | None = None
    groups: Sequence[ArrayLike] | None = None
    prior: Experts = "auto"
    alpha: Ridges = "auto"  # type: ignore[assignment]
    data_norm: Bounds = 1.0

    _kind = "pst-f"


@estimator
class TransferStackingClassifier(FromSources, StackingClassifier):
    """A private stack that shrinks, group by group, towards a released one (PST-H, PPTL-FS).

    The source is a release of :class:`FeatureStackingClassifier`; groups of features, their bounds
    and importances come from it, so that both sides mean the same.

    Parameters
    ----------
    eta : float or sequence of float
        Shrink group k towards ``(1 - eta_k)`` times the source's weights.
    alpha : float, "auto" or a sequence of them
        As in :class:`FeatureStackingClassifier`. Automatic ridges follow from what the sources'
        records and noise leave unknown; their high level is where the target's starts.
    geometry : {"auto", "schema", "l2"}
        That of the sources, unless ``"l2"`` is asked for; ``"schema"`` is an error where theirs is
        an L2 ball's.

    Notes
    -----
    :Public: n_samples, n_features, the label set, groups, importances, the sources, every parameter
    """

    eta: Weights = 0.0

    _kind = "pst-h"
    _source_kinds = ("pst-f", "pst-h")


@estimator
class CollaborativeClassifier(LinearClassifier):
    """Logistic regression of several parties through a central server (OFPA, OFAA made sound).

    Every party releases once (or once per round) about its own rows; the server averages, which
    is post-processing. The classifier simulates the parties in this process; the same protocols
    run between real organisations, see :mod:`confrere_federation.parties`.

    Parameters
    ----------
    method : {"average", "ofpa", "ofaa", "laplace", "sums"}
        ``"average"``: objective perturbation with L2 noise, weighted average. ``"ofpa"``: the
        same with Laplace noise; ``data_norm`` is then a bound on the L1 norm. ``"ofaa"``: noisy
        coefficients of the expanded loss, summed and minimised. ``"laplace"``: noise on every
        party's minimiser, as a baseline. ``"sums"``: nobody sees what a party sends, and nobody
        draws the noise alone: rows by label where a schema declares a base rate, else one message
        per party, or with a ``delta`` rounds of gradients.
    rounds : int
        More than one divides epsilon; each round then shrinks towards the average of the one
        before. For ``"average"`` and ``"ofpa"``; for ``"sums"`` with a delta the number of
        gradient sums, where 1 stands for 20.
    combine : {"mean", "trimmed", "median"}
        What is made of the parties' weights: their mean by records; or, coordinate by coordinate
        with one vote per party, the mean without the largest and smallest fifth, or the median:
        both bound what a party that lies can do. Not for ``"ofaa"`` and ``"sums"``.
    neighbours : "replace-one" or AddRemove
        ``AddRemove(n_samples)`` has a public stand-in for the number of all parties' records: a
        party's own number is not public, and all parties count alike.
    prior : array of shape (n_features,) or (n_classes, n_features), "auto", "experts" or None
        As in :class:`PrivateLogisticRegression`. For ``"average"`` a part of ``epsilon`` pays
        for every party's noised answer to how far it holds, in ``"sums"`` of rows by label a
        column of the sum; for others ``"auto"`` asks nobody.
    geometry : {"auto", "schema", "l2"}
        As in :class:`PrivateLogisticRegression`. Only the noise of ``"average"`` has the schema's
        own shape; others have an L2 ball's, in the coordinates that suit the schema. ``"auto"``
        takes the schema's for ``"average"`` and rows by label, of two classes, without a delta or
        numbers of a ``prior``. Asked of others it needs the encoder of all parties.

    Attributes
    ----------
    party_ : array of shape (n_parties,)
        The parties, sorted.
    party_weights_ : array of shape (n_parties,)
        Their shares of all records.

    Notes
    -----
    :Neighbours: replace one row of ``(X, y)``, within its party; with :class:`AddRemove` one
        row comes or goes
    :Public: n_samples of every party, n_features, the label set, every parameter
    :Releases: ``coef_``, ``intercept_``, and every party's own release behind them
    :Proof: docs/proofs/averaging.md and, of ``"ofaa"``, docs/proofs/functional_mechanism.md, of
        ``"laplace"`` docs/proofs/output_perturbation.md, of ``"sums"`` docs/proofs/secure_sums.md,
        where the guarantee is ``(epsilon, delta)`` and towards the coordinator computational. A
        person with rows at several parties pays epsilon at each

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
    prior: Experts = "auto"
    alpha: Ridge = "auto"
    neighbours: Relation = "replace-one"
    geometry: GeometryName = "auto"
    purpose: Purpose = "prediction"
    rounds: Count = 1
    combine: Literal["mean", "trimmed", "median"] = "mean"
    collusion_threshold: AutoCount = "auto"
    max_retries: Spare = 0
    data_norm: Bound = 1.0

    _kind = "collaborative"
    _sparse = False

    def fit(self, X: object, y: object = None, party: ArrayLike | None = None) -> Self:
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

    def privacy_cost(
        self,
        n_samples: object,
        n_features: int | None = None,
        n_classes: int | None = None,
        n_parties: int | None = None,
    ) -> Guarantee:
        """Return what one ``fit`` on data of these sizes would spend; touches no data.

        ``n_parties`` matters to ``method="sums"`` alone, whose promise names their number; by
        default the fewest that can hide anything.
        """
        if self.method != "sums":
            return super().privacy_cost(n_samples, n_features, n_classes)
        check_parameters(self)
        least = 1 if self.collusion_threshold == "auto" else self.collusion_threshold
        count = least + 1 if n_parties is None else n_parties
        public = self._sizes(n_samples, n_features, n_classes)
        rows = public.n_samples
        sizes = {str(party): rows for party in range(count)}
        facts = replace(public, n_samples=rows * count, sizes=sizes)
        return self.plan(facts).guarantee()

    def prepare(
        self, X: object, y: object, party: ArrayLike | None = None
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
        sizes = dict(zip(map(str, self.party_), counts, strict=True))
        return self.plan(replace(table.facts, sizes=sizes)), replace(table, party=codes)

    def plan(self, facts: PublicFacts) -> CollaborativePlan:
        """Return everything that is decided before the data are touched."""
        sizes = Sizes({"all": facts.n_samples} if facts.sizes is None else facts.sizes)
        encoder = self.encoder_for(sizes.counts)
        # Whoever asks for a price names no columns: those are the encoder's.
        width = facts.n_features if encoder is None else len(encoder.names)
        if isinstance(self.neighbours, AddRemove):
            sizes = Sizes.declared(sizes.counts, self.neighbours.n_samples)
        made = design_protocol(self._asked(), width, facts.n_classes, encoder)
        return CollaborativePlan(self.method, made, sizes, encoder)

    def _keep(self, plan: CollaborativePlan, learned: Any, model: Model) -> None:
        super()._keep(plan, learned, model)
        counts = np.array(list(plan.sizes.counts.values()), dtype=np.float64)
        self.party_weights_ = counts / counts.sum()


@estimator
class MultipartyClassifier(LinearClassifier):
    """Learning from many parties' classifiers (Hamm et al., Algorithms 1 and 2, made sharper).

    Every party trains on its own rows and votes on unlabelled auxiliary rows; the votes' sums make
    one linear model. All data of a party are protected together. The classifier simulates the
    parties in this process; the same protocol runs between real organisations, see
    :class:`confrere_federation.parties.Trusted`.

    Parameters
    ----------
    method : {"statistic", "cells", "soft", "vote", "weights"}
        Where noise goes. ``"statistic"``: on the one vector through which votes enter the risk of
        public auxiliary rows; training is post-processing. ``"cells"``: on how the parties' rows
        are shared over classes and public cells, clusters of the auxiliary rows; by far the best
        for three classes and more, and for two where rows are clustered. ``"soft"``: on the model
        of the votes' fractions. ``"vote"``: on the model of their majority, as a baseline.
        ``"weights"``: on the mean of the parties' own weights, without auxiliary rows.
    alpha : float or "auto"
        Ridge of the released model on the mean loss of the auxiliary rows; for ``"weights"`` of the
        parties' own; for ``"cells"`` on half-white rows. ``"auto"`` is a public rule, for
        ``"statistic"`` and ``"cells"`` one that also looks at what was released.
    local : classifier, list or callable
        What parties train: a scikit-learn classifier that is cloned for each, one per party in the
        order of their names, or a function from a party's name to one. By default logistic
        regression, all parties at once. Not for ``"weights"`` and ``"cells"``.
    local_alpha : float
        Ridge of the default local classifier on the mean loss of a party's rows.
    auxiliary_private : bool
        Hide one auxiliary row together with the party, for ``"soft"`` and ``"vote"``.
    trust : {"coordinator", "sum"}
        Who adds the noise. ``"sum"``: nobody; every party draws a share of it, so that nobody has
        to see what a party sends (docs/sums.md). Not for ``"soft"`` and ``"vote"``, whose
        coordinator noises a model of all votes and is trusted with them.
    on_faulty : {"leave-out", "refuse"}
        Parties with values that are not finite or undeclared labels: count them as
        split votes (as zero weights) and log their names, or raise.

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
    :Unit: party
    :Neighbours: replace all rows of one party, and how many they are
    :Public: the number of parties, n_features, the label set, the auxiliary rows, every parameter
    :Releases: ``coef_``, ``intercept_``, ``statistic_``
    :Proof: docs/proofs/multiparty.md and, of ``"statistic"``, docs/proofs/statistic.md, of
        ``"cells"`` docs/proofs/cells.md, of ``"weights"`` docs/proofs/party_average.md. With
        ``trust="coordinator"`` whoever runs ``fit`` is trusted with what parties send and with
        adding the noise. Local classifiers must learn from their party's rows alone

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

    method: Method = "statistic"
    alpha: Ridge = "auto"
    local: Any = None
    local_alpha: Bound = 1e-4
    auxiliary_private: bool = False
    trust: Literal["coordinator", "sum"] = "coordinator"
    collusion_threshold: AutoCount = "auto"
    max_retries: Spare = 0
    on_faulty: Literal["leave-out", "refuse"] = "leave-out"
    data_norm: Bound = 1.0

    _kind = "multiparty"

    def privacy_cost(
        self, n_parties: Any, n_features: int | None = None, n_classes: int | None = None
    ) -> Guarantee:
        """Return what one ``fit`` of so many parties would spend; touches no data."""
        return super().privacy_cost(n_parties, n_features, n_classes)

    def fit(
        self, X: object, y: object = None, party: ArrayLike | None = None, auxiliary: object = None
    ) -> Self:
        """Charge ``epsilon``, then release a model of all parties' votes.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Rows of all parties; a raw table where there is a ``schema``.
        y : array of shape (n_samples,)
            Labels; may be left out where the schema says in which column of the table they are.
        party : array of shape (n_samples,) or str, optional
            Whose row it is, or the column of the table that says so. By default every row is a
            party of its own.
        auxiliary : array or sparse matrix of shape (n_auxiliary, n_features)
            Unlabelled rows that parties vote on, or that are learned with; public, unless
            ``auxiliary_private``. Not used by ``"weights"``.
        """
        return self._fit(X, y, party=party, auxiliary=auxiliary)

    def prepare(
        self, X: object, y: object, party: ArrayLike | None = None, auxiliary: object = None
    ) -> tuple[MultipartyPlan, Parties]:
        """Return what ``fit`` would run, and the records as it would see them; spends nothing."""
        check_parameters(self)
        parties = self._parties(X, y, party_column(X, party))
        rows = self._auxiliary(auxiliary)
        plan = self.plan(replace(parties.facts, n_samples=len(parties), auxiliary=rows))
        plan.voting.check()
        if self.local is not None:
            local_of(self.local, 0, len(parties), parties.ids[0])
        apply_policy(parties, self.on_faulty)
        if self.local is not None:
            # Code of others may fail on anything: it runs, without noise, before a price is paid.
            parties = replace(parties, total=plan.total(parties))
        return plan, parties

    def plan(self, facts: PublicFacts) -> MultipartyPlan:
        """Return everything that is decided before the data are touched.

        ``facts.n_samples`` is the number of parties: how many rows they have is not public.
        """
        if self.local is not None and self.method in ("weights", "cells"):
            raise InvalidParameter(
                f"local: method={self.method!r} has no use for other classifiers (only weights of "
                "the built-in one have a bound to average under); use method='statistic'."
            )
        voting = self._protocol(
            frame=self._asked().ball(facts.n_features),
            n_parties=facts.n_samples,
            auxiliary=facts.auxiliary,
            n_classes=facts.n_classes,
            **self._values(Voting),
        )
        return MultipartyPlan(voting=voting, local=self.local, on_faulty=self.on_faulty)

    def _keep(self, plan: MultipartyPlan, learned: Any, model: Model) -> None:
        super()._keep(plan, learned, model)
        self.n_parties_, self.alpha_ = plan.voting.n_parties, model.facts.alpha
        if learned[1] is not None:
            self.statistic_ = learned[1]

    def faults(self, X: object, y: object, party: ArrayLike | None = None) -> dict[object, str]:
        """Return the parties that ``fit`` would leave out, and why; spends nothing.

        About the data themselves: for whoever holds them, not to be published.
        """
        parties = self._parties(X, y, party_column(X, party))
        names = parties.ids.tolist()
        return {names[k]: why for k, why in sorted(parties.faults.items())}

    def _parties(self, X: object, y: object, party: ArrayLike | None) -> Parties:
        encoder = self._encoder()
        if encoder is not None:
            encoded, found, _ = self._coded(encoder, X, y)
            classes = self._classes(found)
            return group_rows(encoded.toarray(), found, party, classes, encoder.names)
        if y is None:
            raise InvalidData(NO_LABELS)
        rows = self._checked(X, dtype=(np.float64, np.float32), ensure_all_finite=False)
        labels = column_or_1d(y, warn=True)
        if rows.shape[0] != len(labels):
            raise InvalidData("y must hold one label per row of X.")
        if self.on_faulty == "refuse":
            assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
        return group_rows(rows, labels, party, self._classes(y), self._features())

    def _auxiliary(self, auxiliary: object) -> NDArray[np.float64] | None:
        if self.method == "weights" or auxiliary is None:
            return None
        encoder = self._encoder()
        if encoder is not None:
            return encoder.transform(auxiliary)
        rows = self._checked(auxiliary, dtype=np.float64, reset=False)
        return dense(rows)
