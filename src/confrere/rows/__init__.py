"""From any row into the declared body: the one place where private rows are read into a bound."""
