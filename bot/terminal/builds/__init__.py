"""`rackmedic kb build`: exports of other systems in, a folder of labelled incidents to look through out."""
