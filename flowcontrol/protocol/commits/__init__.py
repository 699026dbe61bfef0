"""Two-phase commit: a transactional sink, and what its readers see.

Pure as all of ``protocol``: the store is an interface, time an argument, nothing waits.
"""
