"""Run with: toolyard toolbox test {{name}}"""

import unittest
from pathlib import Path

from toolyard_test import create_mcp_server, create_tool_instance

MODULE = Path(__file__).with_name("{{name}}.tool.py")


class TextTest(unittest.TestCase):
    def test_counts_words_lines_and_characters(self):
        result = create_tool_instance(MODULE).execute({"text": "The cat and\nthe dog"})
        self.assertEqual(result["words"], 5)
        self.assertEqual(result["lines"], 2)
        self.assertEqual(result["characters"], 19)
        self.assertEqual(result["frequent"][0], {"word": "the", "count": 2})

    def test_lists_as_many_words_as_asked_for(self):
        tool = create_tool_instance(MODULE)
        self.assertEqual(tool.execute({"text": "b a b", "top": 1})["frequent"], [{"word": "b", "count": 2}])
        self.assertEqual(tool.execute({"text": "b a b", "top": 0})["frequent"], [])

    def test_takes_the_reading_speed_from_its_settings(self):
        tool = create_tool_instance(MODULE, env={"WORDS_PER_MINUTE": "10"})
        self.assertEqual(tool.execute({"text": "one two three four five"})["minutes"], 0.5)

    def test_says_what_is_wrong_with_a_text_without_words(self):
        with self.assertRaisesRegex(Exception, "holds no words"):
            create_tool_instance(MODULE).execute({"text": "..."})

    def test_is_a_tool_over_mcp(self):
        server = create_mcp_server(create_tool_instance(MODULE))
        self.assertEqual(server.request("tools/list")["tools"][0]["name"], "{{name}}")
        result = server.request("tools/call", {"name": "{{name}}", "arguments": {"text": "one two"}})
        self.assertEqual(result["structuredContent"]["words"], 2)
        refused = server.request("tools/call", {"name": "{{name}}", "arguments": {"top": 3}})
        self.assertTrue(refused["isError"])


if __name__ == "__main__":
    unittest.main()
