"""Pages for the officer and the operator (extra ``dashboard``): read, and decide on studies."""
