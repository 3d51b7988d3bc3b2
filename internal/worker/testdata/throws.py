raise ValueError("at load")
