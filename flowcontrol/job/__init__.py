"""Names that the Python reference has had in this place; the room is :mod:`flowcontrol.trace`."""
