import os
import re

calls = 0
started = os.environ.get("MODE")  # what the module itself sees


def get_metadata():
    return {"name": "Thing", "description": "For tests. Use it there.", "version": "2.0.1"}


def get_schema():
    return {
        "parameters": {
            "type": "object",
            "required": ["do"],
            "properties": {
                "do": {"type": "string", "enum": ["count", "store", "env", "ask", "call", "keep", "this", "fail", "mcp", "list", "text", "nothing", "unsuccessful"]},
                "key": {"type": "string", "default": "k"},
                "nested": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
            },
        },
        "environment": {"type": "object", "properties": {"SPEED": {"type": "integer", "default": 7}, "MODE": {"type": "string"}}},
    }


def get_business_errors():
    return [{"code": "BROKEN", "description": "it is broken", "match": re.compile("br[o0]ken", re.I), "solution": "Mend it.", "retryable": True}]


def get_runtime_config():
    return {"environment": {"COLOUR": "red"}}


def greet(who):
    return "hello " + who


async def execute(params, ctx):
    global calls
    api, what = ctx.api, params["do"]
    if what == "count":
        calls += 1
        return {"calls": calls}
    if what == "store":
        api.storage.set_item(params["key"], {"n": (api.storage.get_item(params["key"]) or {"n": 0})["n"] + 1})
        return api.storage.get_item(params["key"])
    if what == "env":
        get = api.environment.get
        return {"started": started, "speed": get("SPEED"), "colour": get("COLOUR"), "mode": get("MODE"), "outside": get("ONLY_OUTSIDE")}
    if what == "ask":
        return {"answer": api.ask("really?")}
    if what == "call":
        return {"got": api.tools.other({"n": 1})}
    if what == "keep":
        return api.artifact("thing.tool.py")
    if what == "this":
        api.logger.info("greeting", {"who": "you"})
        api.progress(1, 2, "half")
        return {"text": ctx.greet("you"), "name": ctx.tool_name, "mode": ctx.mode, "directories": [os.path.basename(d) for d in ctx.get_allowed_directories()], "valid": ctx.validate_parameters({})["valid"]}
    if what == "fail":
        raise RuntimeError("the thing is broken")
    if what == "mcp":
        return {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}
    if what == "list":
        return [params.get("key"), params.get("nested")]
    if what == "text":
        return "words"
    if what == "unsuccessful":
        return {"success": False, "error": "no luck", "code": "LUCK"}
