"""Tools of the developers: a control plane, nodes, benchmarks, a demonstration, releases."""
