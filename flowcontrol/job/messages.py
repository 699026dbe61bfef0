"""One message of the data plane, under its old name."""

from flowcontrol.trace.messages import Message as Message
