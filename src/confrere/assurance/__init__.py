"""Every guarantee that is offered, audited; how good a model is, and who a cohort is."""
