"""DynamicResources: which devices the claims of a pod get, and on which nodes they can."""
