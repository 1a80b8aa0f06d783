"""Models of the I/O path: messages, queues, bounds and tails. Numerics only, without archives."""
