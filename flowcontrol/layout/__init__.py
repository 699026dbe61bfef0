"""A scenario laid out as a job: subtasks on task managers, channels, pools, rates, rows to replay.

Both clocks begin with it. It may import the rules, the other systems and the scenario.
"""
