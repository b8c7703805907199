"""The stored side: one concept a file, one script a method, no policy."""
