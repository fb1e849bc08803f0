"""Which kinds of release there are, and how each one's arrays become a plain model.

Whoever owns a kind registers it, so that this room knows no estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from confrere.errors import InvalidParameter
from confrere.release.plain import PlainModel

if TYPE_CHECKING:
    from confrere.release.model import Release

ToPlain: TypeAlias = "Callable[[Release], dict[str, Any]]"

_KINDS: dict[str, ToPlain] = {}


def register_kind(kind: str, to_plain: ToPlain) -> None:
    """Say how releases of ``kind`` become the description that :class:`PlainModel` reads.

    Parameters
    ----------
    kind : str
        The family's name, as in the catalogue.
    to_plain : callable
        From a release to ``PlainModel(...).to_dict()``; arrays and facts are all it may use.
    """
    if _KINDS.setdefault(kind, to_plain) is not to_plain:
        raise InvalidParameter(f"kind {kind!r} is registered already; choose another name.")


def to_plain(release: Release) -> dict[str, Any]:
    """Return the plain description of a release: the loaded one, or its kind's.

    Raises
    ------
    InvalidParameter
        If nobody registered the kind.
    InvalidRelease
        If the description is wrong.
    """
    if release.predictor is not None:
        return PlainModel.from_dict(release.predictor).to_dict()
    if release.kind not in _KINDS:
        raise InvalidParameter(
            f"kind {release.kind!r} is not registered; import the estimator it belongs to, or "
            "call confrere.release.register_kind."
        )
    return PlainModel.from_dict(_KINDS[release.kind](release)).to_dict()
