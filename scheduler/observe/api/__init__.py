"""The read-only documents of `/api/v1`, made from the machine."""
