"""Scripts of batchqueue."""
