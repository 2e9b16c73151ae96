"""The conversation that one person has with the app itself: what is suggested there, the line that says we read, and answers that are streamed.
May import the client, the manifest, cards, the store's keys and tasks; it asks nothing of people and knows no incident."""
