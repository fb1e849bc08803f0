"""Released models as a starting point: load, check that they fit, and bring them to one point."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidParameter, InvalidRelease, SchemaMismatch, SimulatedRelease
from confrere.maths.prior_ridge import mean_curvature, noise_variance, precision_of
from confrere.model import Encoder
from confrere.release import Release, load_release
from confrere.schema.encoder import Form

SourceLike: TypeAlias = Release | str | os.PathLike[str]


def open_sources(
    source: SourceLike | Sequence[SourceLike] | None,
    *,
    kinds: Sequence[str],
    keys: Mapping[str, Any] | None,
    simulation: bool,
) -> tuple[Release, ...]:
    """Return the releases to start from, verified.

    Parameters
    ----------
    source : release, path, or a sequence of them
        What the other organisations released.
    kinds : sequence of str
        Kinds that can be started from.
    keys : mapping of party to public key, optional
        Signatures to require of releases that are read from disk.
    simulation : bool
        Whether the target is itself a simulation; only then may a source be simulated.
    """
    if source is None:
        raise InvalidParameter("source must be given: the release to start from, or its path.")
    refuse_model(source)
    single = isinstance(source, Release | str | os.PathLike)
    items: Sequence[Any] = [source] if single else list(source)  # type: ignore[arg-type]
    if not items:
        raise InvalidParameter("source must be a release, a path to one, or several of them.")
    releases = []
    for item in items:
        if isinstance(item, Release):
            release = item
        elif isinstance(item, str | os.PathLike):
            release = load_release(item, require_signature_from=keys, allow_simulated=simulation)
        else:
            raise InvalidParameter("source must be a confrere.release.Release or a path to one.")
        if release.simulated and not simulation:
            raise SimulatedRelease(
                "source was made with seeded noise, which protects nobody; ask for a real release, "
                "or give random_state to simulate the target as well."
            )
        if release.kind not in kinds:
            raise InvalidParameter(
                f"source is of kind {release.kind!r}; this needs {' or '.join(map(repr, kinds))}."
            )
        releases.append(release)
    return tuple(releases)


def refuse_model(source: object) -> None:
    """Say what to give instead of a fitted classifier, which is not a release."""
    if hasattr(source, "to_release"):
        raise InvalidParameter(
            "source is a classifier; give what it released: source=model.to_release(), or the "
            "folder that its save() wrote."
        )
    if not isinstance(source, Release | str | os.PathLike | Sequence):
        raise InvalidParameter(
            f"source must be a confrere.release.Release or a path to one, got a "
            f"{type(source).__name__}."
        )


def check_same_meaning(
    releases: Sequence[Release],
    *,
    features: Sequence[str] | None,
    classes: NDArray[Any] | None,
    encoder: Encoder | None,
) -> None:
    """Refuse sources that do not speak of the same features, in the same order, and labels.

    Without features and classes there is nothing to compare: only a price is asked.
    """
    if features is None or classes is None:
        return
    for release in releases:
        theirs = release.model.encoder
        if encoder is not None and theirs is not None:
            encoder.schema.require_same(theirs.schema)
        if release.model.features != tuple(features):
            raise SchemaMismatch(
                "source and target have different features:\n"
                + _difference(release.model.features, features)
            )
        if list(release.model.classes) != classes.tolist():
            raise SchemaMismatch(
                f"source has classes {list(release.model.classes)}, the target declares "
                f"{classes.tolist()}."
            )
        if encoder is None:
            continue
        if theirs is None:
            raise SchemaMismatch(
                "source carries no encoder to compare with; ask for a release of a model that was "
                "fitted with schema=..."
            )
        if not encoder.same_encoding(theirs):
            raise SchemaMismatch("source encodes its rows in another way; rows and weights differ.")


def form_of(releases: Sequence[Release]) -> Form:
    """Return how sources encode columns: whoever starts from them does the same."""
    encoders = [release.model.encoder for release in releases]
    forms = {encoder.form for encoder in encoders if encoder is not None}
    return forms.pop() if len(forms) == 1 else "standardised"


def check_classes(releases: Sequence[Release], n_classes: int) -> None:
    """Refuse sources of another number of classes."""
    if any(len(release.model.classes) != n_classes for release in releases):
        raise SchemaMismatch("source has another number of classes than the target.")


def precisions(releases: Sequence[Release], size: int, base_rate: float) -> NDArray[np.float64]:
    """Return how precisely each release tells a weight: of the noise, and of its records.

    All of it is public, so combining releases costs nothing; see
    :func:`confrere.maths.prior_ridge.precision_of`. An average of parties has noise from each.
    """
    found = []
    for release in releases:
        facts = release.model.facts
        if facts.sigma is not None:
            noise = facts.sigma**2
        elif facts.rho is not None:
            noise = (size + 1) / facts.rho**2
        else:
            # Noise of a capped loss at that price, for every party whose model is averaged.
            noise = (facts.parties or 1) * noise_variance(release.guarantee.epsilon, size, 0.5)
        records = known(facts.n_samples, "n_samples")
        curvature = mean_curvature(base_rate)
        found.append(precision_of(records, size, noise=noise, curvature=curvature))
    return np.asarray(found)


def known(fact: float | None, name: str) -> float:
    """Return a fact that a source must state to be started from."""
    if fact is None:
        raise InvalidRelease(f"source does not state its {name}; it cannot be started from.")
    return fact


def _difference(theirs: Sequence[str], ours: Sequence[str]) -> str:
    if len(theirs) != len(ours):
        return f"  source has {len(theirs)} columns, target {len(ours)}"
    pairs = [(j, a, b) for j, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b]
    lines = [f"  column {j}: source {a!r}, target {b!r}" for j, a, b in pairs[:10]]
    if len(pairs) > 10:
        lines.append(f"  and {len(pairs) - 10} more")
    return "\n".join(lines)
