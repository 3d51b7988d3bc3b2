words = "from lib"
