"""Flow control between two tasks: buffers, credits, partitions and their messages."""
