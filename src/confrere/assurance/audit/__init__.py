"""Lower bounds on epsilon by sampling, and exact ratios of densities."""
