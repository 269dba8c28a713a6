"""NodeAffinity, and node selector terms, which volumes use as well."""
