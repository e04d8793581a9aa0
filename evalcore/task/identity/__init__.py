"""What a task is known by: digests and the lock file of its versions."""
