"""What is stored in Redis: keys, limits and lifetimes."""
