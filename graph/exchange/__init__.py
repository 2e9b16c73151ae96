"""A ticket as it travels from a customer's own RackMedic to its provider's: what it holds, what of it is signed away, how it is read. Pure."""
