"""The tool that the contract calls, as contract.tool.js shows it in JavaScript."""

import asyncio
import os
import re
import sys
import time

import beside

calls = 0  # state of the module


def get_metadata():
    return {
        "id": "contract", "name": "Contract", "description": "shows what a tool may use", "version": "1.2.3", "category": "test",
        "author": "us", "tags": ["a", "b"], "scenarios": ["in tests"], "limitations": ["only there"],
    }


def get_schema():
    return {
        "parameters": {"type": "object", "properties": {"method": {"type": "string"}, "n": {"type": "integer", "minimum": 1}}, "required": ["method"]},
        "environment": {"type": "object", "properties": {"GREETING": {"type": "string", "default": "hi"}, "LIMIT": {"type": "number", "default": 3}}},
    }


def get_dependencies():
    return {"lodash": "^4.17.21", "./local.js": "local", "docker": ">=20"}


def get_business_errors():
    return [
        {"code": "OUT_OF_STOCK", "description": "nothing is left", "match": re.compile(r"nothing\s+left", re.I), "solution": "Order more.", "retryable": True},
        {"code": "PATH_OUTSIDE", "description": "a path outside", "match": "路径越权", "solution": "Stay inside.", "retryable": False},
    ]


async def get_runtime_config():
    return {
        "sandbox_type": "python", "max_memory": 256, "max_execution_time": 10, "allowed_directories": ["~/.prompt-manager/toolbox/{toolname}/data"],
        "network_access": ["example.org"], "environment": {"NODE_ENV": "production", "N": 1}, "shared": False, "concurrency_safe": True,
    }


def generate_manual():
    return "# contract\n" + title()


def title():
    return "made by contract"


class Sold(Exception):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


async def execute(params, ctx, mode):
    global calls
    api, method = ctx.api, params.get("method")
    if method == "identity":
        return {"dir": ctx.tool_dir, "name": ctx.tool_name, "mode": mode, "cwd": os.getcwd()}
    if method == "count":
        calls += 1
        return {"calls": calls, "shared": calls, "own": 1}
    if method == "bound":
        return ctx.title() + " " + ctx.get_metadata()["version"]
    if method == "environment":
        names = sorted(k for k in os.environ if k != "LC_CTYPE")  # that is Python's own
        return {"get": api.environment.get("GREETING"), "process": os.environ["GREETING"], "none": api.environment.get("NOT_THERE") is None, "names": names}
    if method == "setEnvironment":
        api.environment.set("GREETING", params["value"])
        return os.environ["GREETING"]
    if method == "log":
        api.logger.debug("a debug")
        api.logger.info("an info", {"n": 1})
        api.logger.warn("a warning", ["x"])
        api.logger.error("an error", error="inner")
        print("printed { a: 1 }")
        print("raw error", file=sys.stderr)
        return "logged"
    if method == "directories":
        ctx.initialize_filesystem()
        return ctx.get_allowed_directories()
    if method == "resolve":
        return ctx.resolve_prompt_manager_path(params.get("path")) if params.get("old") else ctx.resolve_path(params.get("path"))
    if method == "require":
        return type(ctx.require_tool_module(params["name"])).__name__
    if method == "import":
        return ctx.import_tool_module(params["name"]).local + " " + beside.words
    if method == "resolveAll":
        return [resolved(ctx, p) for p in params["paths"]]
    if method == "validateAll":
        return [ctx.validate_parameters(c["value"], c["schema"]) for c in params["cases"]]
    if method == "validate":
        return ctx.validate_parameters(params.get("params"), params.get("schema"))
    if method == "progress":
        api.progress(1, 2, "half")
        api.progress(2, 2)
        return "done"
    if method == "ask":
        return api.ask(params["question"])
    if method == "tool":
        return api.tools[params["name"]](params.get("args"))
    if method == "tools":
        return [api.tools.greet(who="a"), "object"]
    if method == "artifact":
        return api.artifact(params["path"])
    if method == "wait":
        api.progress(0, 1, "waiting")
        await asyncio.sleep(20)
        return "not cancelled"
    return stored(params, ctx, method)


def resolved(ctx, path):
    try:
        return ctx.resolve_path(path)
    except (PermissionError, ValueError) as e:
        return {"refused": "EACCES" if isinstance(e, PermissionError) else "ERR_INVALID_ARG_VALUE"}


def stored(params, ctx, method):
    storage = ctx.api.storage
    if method == "get":
        none = object()
        value = storage.get_item(params["key"], none)
        return {"none": True} if value is none else {"value": value, "none": False}
    if method == "set":
        return storage.set_item(params["key"], params["value"]) is None
    if method == "add":
        for i in range(params["n"]):
            storage.set_item("%s%d-%d" % (params["key"], id(storage), i), i)
        return params["n"]
    if method == "remove":
        return storage.remove_item(params["key"]) is None
    if method == "clear":
        return storage.clear() is None
    if method == "fill":
        return storage.set_item("large", "x" * params["n"])
    if method == "copy":
        storage.get_item(params["key"]).append("only here")
        return storage.get_item(params["key"])
    if method == "value":
        return params["value"]
    if method == "throw":
        if params.get("code"):
            raise Sold(params["message"], params["code"])
        raise {"TypeError": TypeError, None: Exception}[params.get("type")](params["message"])
    return dies(method, params.get("n"))


def dies(method, n):
    if method == "exit":
        os._exit(n)
    if method == "loop":
        while True:
            pass
    if method == "never":
        time.sleep(1000)
    if method == "heap" or method == "buffers":
        return len([b"x" * (100 << 20) for _ in range(20)])
    if method == "large":
        return "x" * n
    if method == "cyclic":
        o = {}
        o["o"] = o
        return o
    if method == "big":
        return {"n": {1, 2}}
    if method == "undefined":
        return None
    if method == "binary":
        sys.stdout.flush()
        os.write(1, bytes([0, 255, 10, 1, 2, 0, 200]))
        return "printed"
    if method == "function":
        return dies
    raise Exception("there is no method %s" % method)
