"""The step-through view: every buffer, credit and message of a job, round by round, in one page."""
