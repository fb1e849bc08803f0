"""Every method by its name: the class, where it was published, and the page that proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal

from confrere.errors import InvalidParameter, StudyError
from confrere.estimators import (
    CollaborativeClassifier,
    FeatureStackingClassifier,
    MultipartyClassifier,
    PrivateLogisticRegression,
    ReleasedClassifier,
    SampleStackingClassifier,
    TransferClassifier,
    TransferStackingClassifier,
)
from confrere.estimators.base import check_parameters
from confrere.methods.design import UNWEIGHTED
from confrere.outcomes.together import ALONE, CollaborativeRegression

#: Who takes part: each organisation by itself; a source, then targets; all at once; many small
#: ones that vote on auxiliary rows; nobody; all at once, and what comes of it is no model.
Shape = Literal["alone", "transfer", "together", "votes", "as-is", "table"]

_STACKING = "Yao et al. (2019), Privacy-preserving Stacking"
_TRANSFER = "Guo et al. (2018), Privacy-preserving Transfer Learning"
_LOGISTIC = "Du, Li and Li (2018), Multiparty Learning for Logistic Regression"
_MULTIPARTY = "Hamm, Cao and Belkin (2016), Learning Privately from Multiparty Data"
_OURS = "this library"

#: What one of many parties is asked where it does not vote.
_VOTED = {"cells": "shares", "weights": "upload"}
_NEAR: Mapping[str, Any] = {"shape": "transfer", "source": "plr"}

#: What a party is asked where it learns by itself; the page of averages, and what they ask.
_ALONE = ("size", "learn")
_SUMS = "sums that nobody sees into, with noise that nobody draws alone"
_AVERAGED = ("averaging", "objective")
_COEFFICIENTS = ("OFAA, made sound", "functional_mechanism", "coefficients")
_MODELS = ("baseline, made sound", "output_perturbation", "output")


@dataclass(frozen=True, kw_only=True)
class Method:
    """One method."""

    name: str  #: How studies and the command line call it
    title: str  #: What it does, in a few words
    estimator: type[Any]  #: The class
    #: ``paper``, ``algorithm``: where it comes from.
    paper: str
    algorithm: str
    proof: str | None  #: The page that proves its guarantee; None if it spends nothing
    shape: Shape = "alone"  #: Who takes part
    #: Arguments that make the class this method.
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    #: For transfer, and where a release is used as it is: the method that makes it.
    source: str | None = None
    operations: tuple[str, ...] = ()  #: What a party is asked, and its policy must allow
    #: Why no questions between machines are asked, where there are no ``operations``.
    not_between_machines: str = ""
    #: What a party is asked instead where the parties' shares make the noise (``trust="sum"``).
    summed: tuple[str, ...] = ()
    auxiliary: bool = False  #: Whether it learns from a file of public rows besides
    weighted: bool = True  #: Whether it learns best from rows that are weighted by importance

    def make(self, **parameters: Any) -> Any:
        """Return the estimator with these parameters."""
        return self.estimator(**{**self.settings, **parameters})

    @staticmethod
    def check(estimator: Any) -> None:
        """Refuse a parameter of what was made, by its name; touches no data."""
        check_parameters(estimator)

    def learning(self, outcome: Any) -> Method:
        """Return it as it learns an outcome that is no class."""
        if self.name not in ("plr", "average", "sums"):
            raise StudyError(f"method.name: a {outcome.kind} is learned by plr, average or sums.")
        made = CollaborativeRegression if self.shape == "together" else ALONE[type(outcome)]
        return replace(self, estimator=made)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        kept = ("name", "title", "paper", "algorithm", "proof", "shape", "source")
        return {name: getattr(self, name) for name in kept} | {
            "class": self.estimator.__name__,
            "operations": list(self.summed or self.operations),
            "not_between_machines": self.not_between_machines or None,
        }


def _method(
    name: str, title: str, estimator: type[Any], paper: str, algorithm: str, page: str, **more: Any
) -> Method:
    proof = f"docs/proofs/{page}.md" if page else None
    told: dict[str, Any] = {"name": name, "title": title, "estimator": estimator, "proof": proof}
    told["weighted"] = name not in UNWEIGHTED
    return Method(**{"operations": _ALONE, **told, **more}, paper=paper, algorithm=algorithm)


def _together(
    name: str, title: str, paper: str, algorithm: str, page: str, *asks: str, **settings: Any
) -> Method:
    more: dict[str, Any] = {"shape": "together", "operations": ("size", *asks)}
    more |= {"settings": MappingProxyType({"method": name, **settings})}
    return _method(name, title, CollaborativeClassifier, paper, algorithm, page, **more)


def _votes(name: str, title: str, algorithm: str, page: str, paper: str = _MULTIPARTY) -> Method:
    return _method(
        name,
        title,
        MultipartyClassifier,
        paper,
        algorithm,
        page,
        shape="votes",
        settings=MappingProxyType({"method": name}),
        operations=(_VOTED.get(name, "ballot"),),
        summed=() if name in ("vote", "soft") else ("party_share",),
        auxiliary=name != "weights",
    )


_STACKED: tuple[tuple[str, str, type[Any], int, str], ...] = (
    ("plr", "private logistic regression", PrivateLogisticRegression, 1, "objective_perturbation"),
    ("pst-s", "a stack over parts of the rows", SampleStackingClassifier, 2, "sample_stacking"),
    ("pst-f", "a stack over groups of features", FeatureStackingClassifier, 3, "feature_groups"),
)

_METHODS = (
    *(
        _method(name, title, face, _STACKING, f"Algorithm {number}", page)
        for name, title, face, number, page in _STACKED
    ),
    *(
        _method(name, title, TransferClassifier, paper, how, "transfer", settings=given, **_NEAR)
        for name, title, given, paper, how in (
            ("transfer", "one model around another's release, or that release", {}, _OURS, ""),
            ("simcomb", "one model near another's release", {"eta": 0.0}, _TRANSFER, "SimComb"),
        )
    ),
    _method(
        "pst-h",
        "a stack near another organisation's released stack",
        TransferStackingClassifier,
        _STACKING,
        "Algorithm 4",
        "transfer",
        shape="transfer",
        source="pst-f",
    ),
    _method(
        "source-d",
        "another organisation's release, used as it is",
        ReleasedClassifier,
        _TRANSFER,
        "SourceD",
        "",
        shape="as-is",
        source="plr",
    ),
    _together("average", "every organisation releases once, averaged", _OURS, "", *_AVERAGED),
    _together("ofpa", "the same with Laplace noise", _LOGISTIC, "OFPA, made sound", *_AVERAGED),
    _together("ofaa", "noisy coefficients of the expanded loss, summed", _LOGISTIC, *_COEFFICIENTS),
    _together("laplace", "noise on every organisation's model, averaged", _LOGISTIC, *_MODELS),
    _together("sums", _SUMS, _OURS, "", "secure_sums", "minimiser", "gradient"),
    _votes("vote", "the majority of many parties' classifiers", "Algorithm 1", "multiparty"),
    _votes("soft", "the fractions of many parties' votes", "Algorithm 2", "multiparty"),
    _votes("weights", "the average of many parties' classifiers", "baseline", "party_average"),
    _votes("statistic", "the one vector through which votes enter", "", "statistic", _OURS),
    _votes("cells", "how classes are shared over public cells", "", "cells", _OURS),
)

#: Every method by its name, in the order of the papers.
CATALOGUE: Mapping[str, Method] = MappingProxyType({method.name: method for method in _METHODS})


#: Names as papers print them: the method, and settings on top of its own. (U) or (R) and (W) differ
#: by what the schema declares: importances make it (W).
PRINTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    **{name: ("plr", {}) for name in ("PLR", "PLR(target)", "Direct")},
    **{name: (name.lower(), {}) for name in ("PST-S", "SimComb", "OFPA", "OFAA", "Laplace")},
    **{name: ("pst-f", {}) for name in ("PST-F(U)", "PST-F(W)")},
    **{name: ("pst-h", {}) for name in ("PST-H(U)", "PST-H(W)", "PPTL-FS(R)", "PPTL-FS(W)")},
    "PLR-FS": ("pst-f", {"combiner": "vote"}),
    "PPHTL": ("simcomb", {}),
    "SourceD": ("source-d", {}),
    "vote": ("vote", {}),
    "soft": ("soft", {}),
    "avg": ("weights", {}),
}
_WITHOUT = "has no privacy and is no method here: confrere_research.methods.many_parties.{}"
#: Printed names of what is only compared with.
REFERENCES = {"batch": _WITHOUT.format("batch"), "indiv": _WITHOUT.format("individual")}


def find_method(name: object) -> Method:
    """Return a method by its name or one that a paper prints, in any case; or name the nearest."""
    asked = str(name).lower()
    if asked in CATALOGUE:
        return CATALOGUE[asked]
    if asked in REFERENCES:
        raise InvalidParameter(f"name: {asked} {REFERENCES[asked]}.")
    printed = {one.lower(): own for one, own in PRINTED.items()}
    if asked not in printed:
        near = get_close_matches(asked, [*CATALOGUE, *printed, *REFERENCES], n=1)
        hint = f"did you mean {near[0]!r}? It " if near else ""
        raise InvalidParameter(f"name: {hint}must be one of {', '.join(CATALOGUE)}.")
    own, settings = printed[asked]
    found = CATALOGUE[own]
    return (
        replace(found, name=asked, settings={**found.settings, **settings}) if settings else found
    )
