"""What a task does with records and events: its operators, and the loop that runs them.

An operator is a state, declared once in a file of its own, and rules on it: records in, an event
in, the end of the input; each says how many outputs are due (:mod:`.table`). A task runs a chain of
them between its gates and its result partitions (:mod:`.task`). Both clocks run these very
functions.
"""
