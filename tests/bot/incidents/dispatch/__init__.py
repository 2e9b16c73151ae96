"""The dispatcher, the inbox and what runs beside them."""
