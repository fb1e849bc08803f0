"""Algorithms as their papers print them: loose or false, only to reproduce figures.

Nothing here carries a guarantee, charges a ledger or can be released; every module says what is
wrong with it.
"""
