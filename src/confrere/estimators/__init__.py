"""scikit-learn faces: validate, price, charge, call, set state."""
