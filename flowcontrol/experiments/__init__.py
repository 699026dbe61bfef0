"""What experiments share: runs of one scenario in many variants, or under many systems.

:mod:`~flowcontrol.experiments.base` is the scenario that is varied,
:mod:`~flowcontrol.experiments.run` what a run returns,
:mod:`~flowcontrol.experiments.spread` where runs take place,
:mod:`~flowcontrol.experiments.follow` how the driver waits for them, and
:mod:`~flowcontrol.experiments.folder` where the results go.
"""
