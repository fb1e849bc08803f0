r"""Minimise a regularised objective: rows in blocks, and a descent.

Only points are returned whose gradient is *proved* to be at most a tolerance, by the kernel's
certificate: a wrong solver cannot break a guarantee. A descent never gives up after a number of
iterations, since a failure that depends on the data would itself be a release; how many passes a
run took depends on the data too, and is not returned.
"""
