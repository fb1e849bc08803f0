"""Pure functions on arrays: losses, solvers, calibration, clipping and noise."""
