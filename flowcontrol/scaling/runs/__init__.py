"""Runs whose parallelism a controller changes, on the virtual clock.

A run is a row of **epochs**: from a start of the job to the next. Each is a virtual run of a
scenario that is derived from the whole one (:mod:`.derive`), as long as the controller
(:mod:`.controllers`) leaves it alone (:mod:`.epoch`); the tables of all make one set
(:mod:`.epoch`). :func:`.scaled.run_scaled` is the whole.
"""
