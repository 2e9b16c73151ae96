"""A ticket as it travels from a customer's RackMedic to the provider's: content, pseudonyms, parser."""
