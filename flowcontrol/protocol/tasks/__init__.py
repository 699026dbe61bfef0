"""A task's work in a round: its operators, and the loop that runs them (:mod:`.task`).

An operator is a state and rules on it: records in, an event in, the end of the input; each says
how many outputs are due (:mod:`.operators`). Both clocks run these very functions.
"""
