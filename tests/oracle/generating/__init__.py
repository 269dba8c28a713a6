"""Random API objects, as an API server returns them: defaulted and admitted."""
