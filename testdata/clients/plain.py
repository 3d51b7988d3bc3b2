"""An MCP server in plain Python, with one tool."""
import json
import sys

SHOUT = {
    "name": "shout",
    "description": "Says it loudly.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "annotations": {"readOnlyHint": True},
}

for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    answer = {"jsonrpc": "2.0", "id": m["id"]}
    if m["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": m["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "plain", "version": "1"},
        }
    elif m["method"] == "tools/list":
        answer["result"] = {"tools": [SHOUT]}
    elif m["method"] == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": m["params"]["arguments"]["text"].upper()}]}
    elif m["method"] == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "there is no " + m["method"]}
    print(json.dumps(answer), flush=True)
