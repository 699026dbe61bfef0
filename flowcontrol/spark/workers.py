"""What tasks in Spark's Python workers share."""

import gc

LOADED_AFTER = 3
"""Tasks after which a worker has loaded all that it ever will."""

_tasks_run = 0


def freeze_loaded() -> None:
    """Freeze the objects that a worker has loaded, so that the garbage collector skips them.

    Spark's Python worker collects garbage after every task. With the modules of pandas and pyarrow
    loaded that took some 20 ms a task, nine tenths of a worker's CPU time.
    """
    global _tasks_run
    if _tasks_run < LOADED_AFTER:
        _tasks_run += 1
        gc.freeze()
