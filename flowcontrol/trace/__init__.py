"""A job after a round as typed values, and the messages that were sent: for traces and pages.

It may import the layout and what the layout imports; no clock.
"""
