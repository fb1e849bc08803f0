"""A page for the officer and the operator (extra ``desk``): it reads, and can write one grant."""
