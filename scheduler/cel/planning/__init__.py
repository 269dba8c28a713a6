"""From a typed tree to Python closures."""
