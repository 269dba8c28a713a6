"""How effects are carried out: queue, order, retries, events and the ledger."""
