"""Common parts of experiments: runs of one scenario in many variants, or under many systems.

:mod:`~flowcontrol.experiments.base` has the varied scenario,
:mod:`~flowcontrol.experiments.executor` the places where runs execute,
:mod:`~flowcontrol.experiments.executor` the loop in which the driver waits for them, and
:mod:`~flowcontrol.experiments.base` the folder of the results.
"""
