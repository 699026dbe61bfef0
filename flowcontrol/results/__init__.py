"""A run from sample to sample, and the tables that are read off its memory, for both clocks.

It may import the control between rounds and what that imports; the clocks import it.
"""
