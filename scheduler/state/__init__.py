"""What the scheduler knows: nodes, pods, queues, nominations. One owner, no locks, no clock."""
