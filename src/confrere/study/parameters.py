"""From a study to its estimators: declared parameters on top of the settings that serve well."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from confrere.catalogue import Method, find_method
from confrere.errors import CalibrationError, InvalidData, InvalidParameter, StudyError
from confrere.guarantee import Guarantee
from confrere.plans.ridges import named_ridges
from confrere.study.study_tables import RESERVE

if TYPE_CHECKING:
    from confrere.study.study_file import Study

#: What the study decides by other tables, or what needs more than plain values.
RESERVED = frozenset(
    {
        *("epsilon", "ledger", "account", "random_state", "classes", "split_seed", "method"),
        *("source", "source_keys", "schema", "importance", "feature_scale", "groups"),
        *("neighbours", "declared_samples", "local", "memory", "on_faulty", "second_moments"),
    }
)

#: From which epsilon on intercepts start from a declared base rate, unless experts say more: below
#: it costs up to .06 AUC (docs/priors.md, "The base rate"), from here on nothing.
BASE_RATE_FROM = 0.5

#: A number of rows to ask a price with: a study's price does not depend on it.
NOMINAL_ROWS = 10_000


def estimator_for(study: Study, method: Method, **more: Any) -> Any:
    """Return the estimator of ``method`` as the study wants it.

    Parameters
    ----------
    study : Study
    method : Method
        The study's own, or the one that makes its source.
    **more
        Further arguments, such as ``source``.
    """
    seed = (study.file.random.noise_seed or 0) if study.simulated else None
    # What experts say, and which body rows lie in, depends on how the study encodes columns.
    asked = "prior" in study.parameters or study.shaped
    schema = study.encoder() if asked else study.schema
    settings = settings_for(study, method, schema=schema, random_state=seed, **more)
    return method.make(**settings)


def settings_for(study: Study, method: Method, **more: Any) -> dict[str, Any]:
    """Return the arguments of ``method`` that the study decides, and ``more`` that it takes."""
    known = _arguments(method)
    wanted = {**_defaults(study), **study.parameters, **_settled(study), **more}
    return {name: value for name, value in wanted.items() if name in known}


def price_for(study: Study, model: Any, n_samples: int = NOMINAL_ROWS) -> Guarantee:
    """Return what one of the study's estimators costs each party, whatever its number of rows.

    In a schema's body the number of rows decides whether a delta is spent, for a target too: a
    study's price has all of it.
    """
    shape, count = study.method.shape, len(study.parties)
    more = {"n_parties": count} if shape == "together" else {}
    sized = count if shape == "votes" else n_samples
    price: Guarantee = model.price(sized, len(study.columns), **more)
    declared = float(study.parameters.get("delta", 0.0))
    return replace(price, delta=max(price.delta, declared)) if study.shaped else price


def check_parameters(study: Study) -> None:
    """Refuse wrong parameters by their name; touches no data.

    Raises
    ------
    StudyError
        Naming the key.
    """
    methods = [study.method] + ([find_method(study.method.source)] if study.method.source else [])
    known: dict[str, inspect.Parameter] = {}
    for method in methods:
        known |= {n: p for n, p in _arguments(method).items() if n not in RESERVED}
    for name, value in study.parameters.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? It" if near else "it"
            raise StudyError(
                f"method.{name}: {study.method.name} does not know it; {hint} knows "
                f"{', '.join(sorted(known))}."
            )
        if name == "alpha" and isinstance(value, dict | list):
            _check_ridges(study, value)
        else:
            _check_kind(name, value, known[name].default)
    if study.shaped and study.method.shape == "together" and study.method.name != "average":
        raise StudyError(
            "method.noise: of what organisations do together, noise is shaped like the rows for "
            "'average' alone."
        )
    if study.shaped and "prior" in study.parameters:
        raise StudyError('method.prior: noise = "schema" knows no prior; leave out one of the two.')
    for method in methods:
        if method.shape in ("transfer", "as-is"):
            continue  # its price is asked once there is a source; the source's comes first
        try:
            price = price_for(study, estimator_for(study, method))
        except (InvalidParameter, InvalidData, CalibrationError) as error:
            raise StudyError(f"method: {error}") from None
        except (TypeError, ValueError, ArithmeticError) as error:
            raise StudyError(f"method: a parameter is wrong ({type(error).__name__}).") from None
        if (price.unit, price.neighbours) != (study.promise.protects, study.promise.relation):
            raise StudyError(
                f"privacy: {method.name} promises {price.unit}, {price.neighbours}; the study "
                f"says {study.promise.protects}, {study.promise.relation}."
            )


def _arguments(method: Method) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(method.estimator).parameters
    return {name: value for name, value in parameters.items() if name not in method.settings}


def ridges_for(study: Study, alpha: Any) -> list[float] | None:
    """Return ridges that a study gives one by one; None if there is one for all.

    A table names columns of the schema, raw or encoded; a list is in the order of encoded columns,
    or of groups.
    """
    if isinstance(alpha, dict):
        return named_ridges(alpha, study.columns, study.schema)
    return alpha if isinstance(alpha, list) else None


def _check_ridges(study: Study, alpha: dict[str, Any] | list[Any]) -> None:
    numbers = list(alpha.values() if isinstance(alpha, dict) else alpha)
    plain = all(isinstance(one, int | float) and not isinstance(one, bool) for one in numbers)
    if not numbers or not plain or not all(0 < one <= 1e12 for one in numbers):
        raise StudyError("method.alpha: must hold numbers above 0, one per column or group.")
    try:
        ridges_for(study, alpha)
    except InvalidParameter as error:
        raise StudyError(f"method.{error}") from None


def _check_kind(name: str, value: Any, default: Any) -> None:
    """Refuse a value that is of another kind than the default."""
    if name == "prior":
        if value != "experts":
            raise StudyError('method.prior: must be "experts": what the schema\'s columns declare.')
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        bool: isinstance(value, bool),
        int: type(value) is int,
        float: number,
        str: isinstance(value, str) or (default == "auto" and number),
    }.get(type(default), number)
    if not fits or (number and not math.isfinite(value)):
        kind = "auto or a number" if default == "auto" else type(default).__name__
        raise StudyError(f"method.{name}: must be of the kind {kind}.")
    # Whole numbers count groups, rounds or parties: reading a stranger's study must take no hour.
    if number and abs(value) > (10**6 if type(value) is type(default) is int else 1e12):
        raise StudyError(f"method.{name}: is too large.")


def _defaults(study: Study) -> dict[str, Any]:
    """Return what serves well unless the study says otherwise."""
    outcome = study.schema.outcome
    defaults: dict[str, Any] = {"trust": study.trust}
    rate = None if outcome is None else outcome.base_rate
    if rate is not None and (study.epsilon >= BASE_RATE_FROM or "prior" in study.parameters):
        defaults["prior_intercept"] = math.log(rate / (1 - rate))
    return defaults


def _settled(study: Study) -> dict[str, Any]:
    """Return what other tables of the study decide."""
    outcome = study.schema.outcome
    assert outcome is not None
    settled: dict[str, Any] = {
        "epsilon": study.epsilon,
        "classes": [-1, 1] if outcome.classes is None else list(outcome.classes),
        "split_seed": study.file.random.split_seed,
    }
    if study.adds_up:
        settled |= {
            "colluding": study.colluding,
            "reserve": study.parameters.get("reserve", RESERVE),
        }
    if study.method.name == "sums":
        settled["second_moments"] = study.encoder().mean_squares()
    if study.schema.has_importances and not study.shaped:  # a body's groups take the schema's own
        settled["importance"] = study.schema.importances()
    return settled
