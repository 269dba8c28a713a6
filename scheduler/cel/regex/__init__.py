"""Regular expressions with the syntax and the linear running time of RE2."""
