"""The questions of metrics A, B and C (arXiv 2411.05349), the arms that answer and the marks."""
