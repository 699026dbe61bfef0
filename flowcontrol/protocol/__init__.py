"""Flink's credit-based flow control as pure rules and state machines."""
