"""The link: credit-based flow control between the queries of a Structured Streaming pipeline."""
