"""Public facts: schemas, data-set loaders, organisations and public projections."""
