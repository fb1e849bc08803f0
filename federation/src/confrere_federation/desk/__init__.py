"""A page for the officer and the operator (extra ``desk``): it reads, and can write one grant.

Its own process holds what ledgers say and little else; whatever needs studies, releases or numbers
is asked of a second process, the clerk, which ends when nobody asks it anything.
"""
