"""The memory of the kernel: a job's state in one array of integers, laid out and filled.

It may import the layout and the rules; the kernel steps what is in it.
"""
