"""Seeing a link: figures from its ledger and its log, for a terminal, SQL and Prometheus."""
