"""The functions that selectors may call, one module for each family of them."""
