import json
import os
import unittest
from pathlib import Path

from toolyard_test import create_mcp_server, create_tool_instance

MODULE = Path(__file__).with_name("thing.tool.py")


class InstanceTest(unittest.TestCase):
    def test_is_named_placed_and_described(self):
        tool = create_tool_instance(MODULE)
        self.assertEqual(tool.name, "thing")
        self.assertEqual(tool.dir, str(MODULE.parent.resolve()))
        self.assertEqual(tool.definition["values"]["getMetadata"]["version"], "2.0.1")
        self.assertEqual(tool.definition["problems"], [])
        self.assertEqual(tool.greet("me"), "hello me")
        with self.assertRaises(AttributeError):
            tool.nothing

    def test_context_is_that_of_a_call(self):
        tool = create_tool_instance(str(MODULE), allowed_directories=["one", "two"])
        self.assertEqual(
            tool.execute({"do": "this"}),
            {"text": "hello you", "name": "thing", "mode": "execute", "directories": ["one", "two"], "valid": False},
        )
        self.assertEqual(tool.logs, [{"level": "info", "text": "greeting", "meta": {"who": "you"}}])
        self.assertEqual(tool.progress, [{"done": 1.0, "total": 2.0, "text": "half"}])

    def test_instances_do_not_share_module_state(self):
        a, b = create_tool_instance(MODULE), create_tool_instance(MODULE)
        self.assertEqual([a.execute({"do": "count"})["calls"], a.execute({"do": "count"})["calls"], b.execute({"do": "count"})["calls"]], [1, 2, 1])

    def test_environment_is_its_own(self):
        os.environ["ONLY_OUTSIDE"] = "secret"
        tool = create_tool_instance(MODULE, env={"MODE": "x"})
        self.assertEqual(tool.execute({"do": "env"}), {"started": "x", "speed": "7", "colour": "red", "mode": "x", "outside": None})
        self.assertNotIn("MODE", os.environ)
        self.assertEqual(os.environ["ONLY_OUTSIDE"], "secret")

    def test_storage_is_in_data(self):
        tool = create_tool_instance(MODULE)
        self.assertEqual(tool.execute({"do": "store", "key": "n"}), {"n": 1})
        self.assertEqual(json.loads(Path(tool.data, "storage.json").read_text()), {"n": {"n": 1}})
        filled = create_tool_instance(MODULE, data={"n": {"n": 41}})
        self.assertEqual(filled.execute({"do": "store", "key": "n"}), {"n": 42})
        self.assertEqual(create_tool_instance(MODULE, data=filled.data).storage.get_item("n"), {"n": 42})

    def test_runtime_answers_what_the_test_says(self):
        tool = create_tool_instance(MODULE, ask=lambda q: {"said": q["text"]}, tools={"other": lambda args: args["n"] + 1})
        self.assertEqual(tool.execute({"do": "ask"}), {"answer": {"said": "really?"}})
        self.assertEqual(tool.questions, [{"text": "really?"}])
        self.assertEqual(tool.execute({"do": "call"}), {"got": 2})
        self.assertEqual(tool.artifacts, [] if tool.execute({"do": "keep"}) is None else [{"path": str(MODULE.resolve())}])
        alone = create_tool_instance(MODULE)
        for what, code in (("ask", "NO_CHANNEL"), ("call", "TOOL_NOT_FOUND")):
            with self.assertRaises(Exception) as caught:
                alone.execute({"do": what})
            self.assertEqual(caught.exception.code, code)


class ServerTest(unittest.TestCase):
    def setUp(self):
        self.server = create_mcp_server(create_tool_instance(MODULE))

    def call(self, **args):
        return self.server.request("tools/call", {"name": "thing", "arguments": args})

    def test_introduces_itself(self):
        hello = self.server.request("initialize", {"protocolVersion": "2025-06-18"})
        self.assertEqual(hello, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "thing", "version": "2.0.1"}})
        self.assertIsNone(self.server.handle({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        tools = self.server.request("tools/list")["tools"]
        self.assertEqual((len(tools), tools[0]["title"], tools[0]["inputSchema"]["required"]), (1, "Thing", ["do"]))

    def test_refuses_what_is_wrong(self):
        for method, params, code in (("nothing/here", None, -32601), ("tools/call", {"name": "other"}, -32602)):
            with self.assertRaises(Exception) as caught:
                self.server.request(method, params)
            self.assertEqual(caught.exception.code, code)
        self.assertEqual(self.server.handle({"id": 1})["error"]["code"], -32600)
        for args in ({}, {"do": "dance"}, {"do": "text", "key": 5}):
            refused = self.call(**args)
            self.assertTrue(refused["isError"])
            self.assertEqual(refused["structuredContent"]["error"]["code"], "VALIDATION_ERROR")

    def test_gives_what_a_client_gets(self):
        self.assertEqual(self.call(do="count"), {"content": [{"type": "text", "text": '{"calls": 1}'}], "structuredContent": {"calls": 1}})
        self.assertEqual(self.call(do="mcp"), {"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]})
        self.assertEqual(self.call(do="list", nested={}), {"content": [{"type": "text", "text": '["k", {"depth": 3}]'}]})
        self.assertEqual(self.call(do="text"), {"content": [{"type": "text", "text": "words"}]})
        self.assertEqual(self.call(do="nothing")["content"][0]["text"], "The tool returned nothing.")

    def test_says_how_it_failed(self):
        failed = self.call(do="fail")
        self.assertTrue(failed["isError"])
        self.assertEqual(failed["content"][0]["text"], "the thing is broken. Mend it.")
        self.assertEqual(failed["structuredContent"]["error"]["details"]["business"], {"code": "BROKEN", "description": "it is broken", "solution": "Mend it.", "retryable": True})
        self.assertEqual(self.call(do="unsuccessful")["structuredContent"], {"error": {"code": "LUCK", "message": "no luck"}})
