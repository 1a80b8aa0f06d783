"""What a load level was held back by, named from evidence that stands beside it."""
