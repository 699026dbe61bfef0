"""The state of a job, declared once: dataclasses of integers, queues and rings of them.

Rules change it, and nothing else. It may import nothing of the package but itself.
"""
