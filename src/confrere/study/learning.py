"""The operation by which a party learns a model of its own: the plan of a catalogue method.

A request says which method, with which settings, under which names, starting from which released
models. Whoever has it has the plan: a party derives it from its own study and compares; what it
answers are the plan's noised numbers, and anyone who has the plan makes the model of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.arrays import Floats
from confrere.catalogue import Method, find_method
from confrere.errors import ConfrereError, InvalidMessage, InvalidParameter
from confrere.estimators.base import Opinion
from confrere.federation.messages import Expected, Numbers, Payload
from confrere.federation.operation import Operation, PartyFacts, check_price, install
from confrere.federation.party import LocalParty
from confrere.federation.sums import received_schema, sent_schema
from confrere.guarantee import Guarantee
from confrere.model import Encoder, Model
from confrere.model.model_json import read_model
from confrere.model.strict_json import json_bytes, read_json
from confrere.noise.sources import RandomSource
from confrere.plans import LabelledTable, PublicFacts
from confrere.plans.base_plan import ModelPlan, Names
from confrere.release import Release
from confrere.rows.engines import opened_engine
from confrere.rows.frame import LARGEST
from confrere.schema import PublicSchema, SchemaEncoder

_VALUES = frozenset({"method", "settings", "classes", "features", "sources"})
_MADE = frozenset({"method", "settings", "n_samples"})
_GIVEN = frozenset({"kind"})
_PLAIN = (str, int, float, bool)


def body_encoder(schema: PublicSchema) -> SchemaEncoder:
    """Return what encodes rows for noise that is shaped like them, whatever their number.

    Numbers are lines, unless a column says that it is a curve: how many records there are is not
    known when they are encoded.
    """
    return schema.encoder(form="linear")


@dataclass(frozen=True, eq=False)
class Start:
    """A released model that another is started from.

    Parameters
    ----------
    kind : str
        The method that made it.
    model : Model
        What was released.
    spec : mapping
        What a request says about it: the method, settings and size behind the numbers, or, of a
        release that was made before, its kind.
    numbers : mapping of str to array
        What was released in this run; or the bytes of a model that was released before.
    guarantee : Guarantee
        What was promised to those in it.
    """

    kind: str
    model: Model
    spec: Mapping[str, Any]
    numbers: Mapping[str, NDArray[Any]]
    guarantee: Guarantee

    @classmethod
    def given(cls, release: Release) -> Start:
        """Start from a release that was made before."""
        written = json_bytes(replace(release.model, encoder=None).to_dict())
        sent = {"model": np.frombuffer(written, dtype=np.uint8)}
        return cls(release.kind, release.model, {"kind": release.kind}, sent, release.guarantee)

    def release(self, encoder: SchemaEncoder | None = None) -> Release:
        """Return the model as estimators take it; sources of a study encode as the study does."""
        model = replace(self.model, encoder=None if encoder is None else Encoder.of(encoder))
        return Release(self.kind, model, self.guarantee, None, simulated=False)


@dataclass(frozen=True, eq=False)
class Learning:
    """One organisation's model, as far as it is public.

    Parameters
    ----------
    method : Method
        Of the catalogue.
    settings : mapping
        Its plain arguments.
    names : Names
        Labels and columns.
    importance : array, optional
        Public importances of the columns.
    starts : tuple of Start
        Released models that it starts from.
    prior : array, optional
        The experts' log odds per unit of each column, for methods that take a prior; a target's
        sources may.
    alpha : array, optional
        Ridges, one per column or group, where the settings have none for all.
    weights : array, optional
        Importances that rows come weighted by: taken back as far as the prior is not believed.
    schema : PublicSchema, optional
        By which rows were encoded, where noise is shaped like them.
    """

    method: Method
    settings: Mapping[str, Any]
    names: Names
    importance: Floats | None = None
    starts: tuple[Start, ...] = field(default=())
    prior: Floats | None = None
    alpha: Floats | None = None
    weights: Floats | None = None
    schema: PublicSchema | None = None

    def plan(self, n_samples: int) -> ModelPlan:
        """Return what an organisation of so many records carries out; touches no data."""
        given: dict[str, Any] = {"classes": list(self.names.classes)}
        if self.importance is not None:
            given["importance"] = self.importance
        if self.prior is not None and "prior" in signature(self.method.estimator).parameters:
            given["prior"] = Opinion(self.prior, 0.0, self.weights)
        if self.alpha is not None:
            given["alpha"] = self.alpha.tolist()
        encoder = None if self.schema is None else body_encoder(self.schema)
        if encoder is not None:
            given["schema"] = encoder
        if self.starts:
            given["source"] = [start.release(encoder) for start in self.starts]
        facts = PublicFacts(
            n_samples=n_samples,
            n_features=len(self.names.features),
            n_classes=len(self.names.classes),
            classes=np.unique(self.names.classes),
            features=self.names.features,
        )
        plan = self.method.make(**self.settings, **given).plan(facts)
        if not isinstance(plan, ModelPlan):
            raise InvalidParameter(f"method: {self.method.name} is not for one organisation.")
        return plan

    def expected(self, n_samples: int) -> Expected:
        """Return what an organisation of that size may answer."""
        plan = self.plan(n_samples)
        bounds = {n: Numbers(shape, longest=far) for n, (shape, far) in plan.bounds().items()}
        return Expected(bounds, plan.guarantee())

    def start(self, n_samples: int, numbers: Mapping[str, Floats]) -> Start:
        """Return what was released, for others to start from."""
        plan = self.plan(n_samples)
        spec = {
            "method": self.method.name,
            "settings": dict(self.settings),
            "n_samples": int(n_samples),
        }
        model = plan.assemble(numbers, self.names)
        return Start(self.method.name, model, spec, numbers, plan.guarantee())

    def to_payload(self) -> Payload:
        """Return the request."""
        values = {
            "method": self.method.name,
            "settings": dict(self.settings),
            "classes": list(self.names.classes),
            "features": list(self.names.features),
            "sources": [dict(start.spec) for start in self.starts],
        }
        arrays: dict[str, NDArray[Any]] = {}
        if self.importance is not None:
            arrays["importance"] = self.importance
        if self.prior is not None:
            arrays["prior"] = self.prior
        if self.alpha is not None:
            arrays["alpha"] = self.alpha
        if self.weights is not None:
            arrays["weights"] = self.weights
        if self.schema is not None:
            arrays["schema"] = sent_schema(self.schema)
        for k, start in enumerate(self.starts):
            arrays |= {f"source{k}_{name}": array for name, array in start.numbers.items()}
        return Payload(values, arrays)

    @classmethod
    def from_payload(cls, request: Payload) -> Learning:
        """Read a request; what does not fit is refused."""
        values, arrays = request.values, dict(request.arrays)
        if values.keys() != _VALUES:
            raise InvalidMessage("the request has missing or unknown fields.")
        for name in ("classes", "features", "sources"):
            if not isinstance(values[name], list):
                raise InvalidMessage(f"{name} must be a list.")
        names = Names(tuple(values["classes"]), tuple(values["features"]))
        told: dict[str, Any] = {
            name: arrays.pop(name, None) for name in ("importance", "prior", "alpha", "weights")
        }
        for name, known in told.items():
            if known is not None and (known.dtype != np.float64 or known.ndim != 1):
                raise InvalidMessage(f"{name} must be one float64 per column.")
        weights = told["weights"]
        if weights is not None and (told["prior"] is None or len(weights) != len(names.features)):
            raise InvalidMessage("weights must be one number per column, of a prior.")
        if weights is not None and not np.all((weights >= 0) & (weights <= LARGEST)):
            raise InvalidMessage(f"weights must be numbers from 0 to {LARGEST:g}.")
        if "schema" in arrays:
            told["schema"] = received_schema(arrays.pop("schema"))
        starts = []
        for k, spec in enumerate(values["sources"]):
            prefix = f"source{k}_"
            own = {n.removeprefix(prefix): arrays.pop(n) for n in [*arrays] if n.startswith(prefix)}
            starts.append(_start(spec, own, names, told))
        if arrays:
            raise InvalidMessage("the request has unknown arrays.")
        return cls(_method(values), _settings(values), names, starts=tuple(starts), **told)


def _method(values: Mapping[str, Any]) -> Method:
    try:
        return find_method(values["method"])
    except InvalidParameter:
        raise InvalidMessage("method must be one of the catalogue's.") from None


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    settings = values["settings"]
    if not isinstance(settings, dict) or not all(type(v) in _PLAIN for v in settings.values()):
        raise InvalidMessage("settings must be a table of plain values.")
    check_price(settings.get("epsilon"))
    return dict(settings)


def _start(
    spec: Any,
    numbers: dict[str, Any],
    names: Names,
    told: Mapping[str, Any],
) -> Start:
    if not isinstance(spec, dict) or spec.keys() not in (_MADE, _GIVEN):
        raise InvalidMessage("a source is a method with its settings and size, or a model.")
    if spec.keys() == _GIVEN:
        if numbers.keys() != {"model"} or type(spec["kind"]) is not str:
            raise InvalidMessage("a source that is given is a model.")
        model = read_model(read_json(numbers["model"].tobytes(), "source"))
        # What it promised its own records is on its card, and not the target's business.
        return Start(spec["kind"], model, spec, numbers, Guarantee(1.0))
    if type(spec["n_samples"]) is not int:
        raise InvalidMessage("a source has a number of records.")
    learning = Learning(_method(spec), _settings(spec), names, starts=(), **told)
    wanted = learning.expected(spec["n_samples"])
    if wanted.fault(Payload(arrays=numbers)) is not None:
        raise InvalidMessage("a source's numbers are not what its method releases.")
    return learning.start(spec["n_samples"], numbers)


def _planned(request: Payload, facts: PartyFacts) -> tuple[Learning, ModelPlan]:
    try:
        learning = Learning.from_payload(request)
        names = learning.names
        if (len(names.features), len(names.classes)) != (facts.n_features, facts.n_classes):
            raise InvalidMessage("the request is for another number of columns or classes.")
        return learning, learning.plan(facts.n_samples)
    except ConfrereError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InvalidMessage(f"the request makes no plan ({type(error).__name__}).") from error


def _price(request: Payload, facts: PartyFacts) -> Guarantee:
    return _planned(request, facts)[1].guarantee()


def _run(request: Payload, party: LocalParty, source: RandomSource) -> Payload:
    learning, plan = _planned(request, party.facts)
    codes = (party.y > 0) if party.n_classes == 2 else party.y
    classes = np.unique(learning.names.classes)
    with opened_engine(party.engine) as engine:
        table = LabelledTable(
            party.X, codes.astype(np.intp), classes, learning.names.features, engine=engine
        )
        return Payload(arrays=plan.release(table, source))


LEARN = install(Operation("learn", _price, _run, many_classes=True))
