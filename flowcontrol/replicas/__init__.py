"""A job whose tasks run in several processes, by the kernel's functions, uncompiled."""
