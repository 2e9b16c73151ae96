"""Approvals and their execution: single actions, batches and waves."""
