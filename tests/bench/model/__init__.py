"""The model endpoint of a run: counted, recorded and replayed."""
