"""Throttles: each turns observations of a whole job into commands to its sources, one file each.

A file has the formulas of a throttle and its controller. At the end of some rounds the controller
is shown the job, and answers with a command to each source, in force from the next round on. It
knows no clock and no chance, and what it remembers is plain JSON: both clocks run the same code.

Every controller sees the job at the ends of rounds and is heard at their beginnings, so whatever a
real system does in between (a mark that is crossed, a delay, a batch that ends) happens at the next
end of a round: all times are rounded up to whole rounds. Each file states what else differs.
"""
