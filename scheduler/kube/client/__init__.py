"""A client of the API server: requests, deadlines, retries and rate limits."""
