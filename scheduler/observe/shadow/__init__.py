"""Shadow mode: compares what other schedulers do with what this one would have done."""
