import warnings

from tests.unit.federation.conftest import make_party

__all__ = ["make_party"]

with warnings.catch_warnings():
    # Flower and typer import names that click and protobuf have deprecated.
    warnings.simplefilter("ignore", category=DeprecationWarning)
    import flwr.clientapp
    import flwr.serverapp  # noqa: F401
