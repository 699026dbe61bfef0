"""Jobs that repeat themselves: whole periods of a steady state are jumped, not run.

The kernel's memory at a stop is looked at relative to the moment: levels as they are, what grows as
its distance from what it is compared with, times from now (:mod:`.relative`). How each integer
moves its field declares (:mod:`flowcontrol.protocol.motions`), and where it is a :class:`.Layout`
says. A job whose schedules stand still and that draws no numbers does from equal relative states
the same for ever; so once such a state has come again, the state at any later moment is known from
that of one period, and nothing needs to be run (:class:`.Orbit`). Results are equal to the last
number to those of a run without jumps.
"""
