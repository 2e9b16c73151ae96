"""The line between the two RackMedics of a customer and of their provider."""
