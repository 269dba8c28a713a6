"""What the scheduler knows: nodes, pods, nominations, storage. One owner, no locks, no clock."""
