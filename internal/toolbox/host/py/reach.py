"""What ctx.api has besides: environment, tools, ask, artifact."""

import json
import os


class ToolError(Exception):
    """A tool that was called has failed. code is why, result all that it said."""

    def __init__(self, message, code, result):
        super().__init__(message)
        self.code, self.result = code, result


def checked(name, result):
    if not isinstance(result, dict) or result.get("isError") is not True:
        return result
    error = (result.get("structuredContent") or {}).get("error") or {}
    texts = [c.get("text", "") for c in result.get("content") or [] if isinstance(c, dict) and c.get("type") == "text"]
    raise ToolError(error.get("message") or "\n".join(texts) or name + " failed", error.get("code"), result)


def as_text(value):
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list, tuple, bool)) else str(value)


class Environment:
    """The process's environment, which is the tool's own."""

    @staticmethod
    def get(name, default=None):
        return os.environ.get(name, default)

    @staticmethod
    def set(name, value):
        """Sets a variable for as long as the worker lives."""
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value if isinstance(value, str) else as_text(value)


class Tools:
    """Each attribute is a function that calls the tool of that name."""

    def __init__(self, host):
        self._host = host

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name):
        def call(args=None, **more):
            return checked(name, self._host.request("call", {"name": name, "args": {**(args or {}), **more}}))

        return call


def asker(api):
    def ask(question=None, **more):
        """Asks a person and gives the answer."""
        if not isinstance(question, dict):
            question = {} if question is None else {"text": str(question)}
        question = {**question, **more}
        if "text" not in question and "question" in question:
            question["text"] = str(question["question"])
        return api._host.request("ask", question)

    return ask


def keeper(api):
    def artifact(path, **more):
        """Keeps a file of the tool, in its folder or in data, beyond the call."""
        path, setup = os.fspath(path), api._tool._setup
        here, there = os.path.join(setup["dir"], path), os.path.join(setup["data"], path)
        if not os.path.exists(here) and os.path.exists(there):
            here = there
        return api._host.request("artifact", {**more, "path": os.path.abspath(here)})

    return artifact


API = {"environment": lambda api: Environment, "tools": lambda api: Tools(api._host), "ask": asker, "artifact": keeper}
