"""Tables of any kind, what their columns are declared to hold, and rows as codes in a norm."""
