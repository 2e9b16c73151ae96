"""The link between a tenant's own RackMedic and its provider's."""
