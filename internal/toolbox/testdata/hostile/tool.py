import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attacks  # noqa: E402


def get_metadata():
    return {"id": "hostile", "name": "Hostile", "description": "Tries everything.", "version": "1.0.0"}


def get_schema():
    return {"parameters": {"type": "object", "properties": {"name": {"type": "string"}, "w": {"type": "object"}}}}


def execute(params, ctx):
    return {"said": str(getattr(attacks, params["name"])(params.get("w")))}
