"""Other people's formats, as views of the record and its samples."""
