"""Windows: which elements belong together, when they fire, and for how long they are kept.

Rules of integers, which a kernel compiles as they stand: :mod:`.firing` is what calls the others.
"""
