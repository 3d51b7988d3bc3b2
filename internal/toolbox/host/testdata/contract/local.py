local = "a file beside"
