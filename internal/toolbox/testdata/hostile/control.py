"""Runs attacks.py without a sandbox: a line of JSON in, a line out."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(sys.argv[1]))
import attacks  # noqa: E402

dumps, write, loads = json.dumps, os.write, json.loads
for line in sys.stdin:
    asked = loads(line)
    try:
        said = str(getattr(attacks, asked["name"])(asked["w"]))
    except Exception as e:
        said = "raised %s" % e
    write(1, (dumps(said) + "\n").encode())
