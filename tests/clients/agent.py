"""A scripted assistant: answers questions of a set through the Model Context Protocol alone, and says how many calls and
tokens each took and whether it came to the right place.

    python tests/clients/agent.py RIDDLE HOME QUERIES QRELS [--questions 150] [--calls 3] [--tokens 4000]

RIDDLE is the program, HOME a home in which one folder is indexed whose files are named as QRELS names them. QUERIES and
QRELS are of a set in the layout of BEIR. Needs nothing but Python; nothing of it is a language model, so what is counted
is what the tools give and what a model would have to read.

What it does with a question: it searches; where the first two files lie close together it reads what stands around the
best passage; then it has the question answered with quotations. Each result may take what is left of the budget and no
more. It prints one JSON object.
"""

import argparse
import json
import subprocess

# A token of English is about four characters: text of JSON has shorter ones, so three are taken.
CHARACTERS = 3


class Tools:
    def __init__(self, program, home):
        command = [program, "--home", home, "--offline", "mcp"]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.number = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self.ask("initialize", hello)

    def ask(self, method, params):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.child.stdin.write(json.dumps(message) + "\n")
        self.child.stdin.flush()
        answer = json.loads(self.child.stdout.readline())
        assert answer["id"] == self.number, answer
        return answer["result"]

    def call(self, name, arguments):
        """What a model would read of the result, and the result."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        text = result["content"][0]["text"]
        assert not result["isError"], text
        return len(text) / CHARACTERS, result["structuredContent"]

    def close(self):
        self.child.stdin.close()
        return self.child.wait()


def below(file):
    """Without the folder's own name, as the set names it."""
    return file.split("/", 1)[1] if "/" in file else file


def answered(tools, question, budget):
    """Files in the order in which they would be cited, calls, tokens."""
    # What is no text of a passage (names, places, braces) takes about as much again.
    tokens, found = tools.call("search", {"query": question, "limit": 6, "max_tokens": int(budget / 4)})
    calls, passages = 1, found["passages"]
    cited = [below(it["file"]) for it in passages]
    close = len(passages) > 1 and passages[1].get("score", 0) > 0.9 * passages[0].get("score", 1)
    if passages and close:
        arguments = {"id": passages[0]["id"], "before": 1, "after": 1, "max_tokens": int(budget / 8)}
        more, _ = tools.call("read", arguments)
        calls, tokens = calls + 1, tokens + more
    more, answer = tools.call("answer", {"question": question})
    calls, tokens = calls + 1, tokens + more
    quoted = [below(it["file"]) for it in answer["citations"]]
    return quoted, cited, calls, tokens, answer["answer"] is not None


def main():
    parser = argparse.ArgumentParser()
    for name in ("riddle", "home", "queries", "qrels"):
        parser.add_argument(name)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=4000)
    args = parser.parse_args()
    places = {}
    with open(args.qrels, encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            query, document, relevant = line.split("\t")
            if int(relevant) > 0:
                places.setdefault(query, set()).add(document)
    with open(args.queries, encoding="utf-8") as file:
        queries = [json.loads(it) for it in file]
    queries = [it for it in queries if it["_id"] in places]
    # Over the whole set, always the same ones.
    step = max(1, len(queries) // args.questions)
    queries = queries[::step][: args.questions]
    tools = Tools(args.riddle, args.home)
    rows = []
    for it in queries:
        quoted, cited, calls, tokens, answers = answered(tools, it["text"], args.tokens)
        right = places[it["_id"]]
        order = quoted + [it for it in cited if it not in quoted]
        rows.append({
            "first": bool(order) and order[0] in right,
            "found first": bool(cited) and cited[0] in right,
            "quoted": any(it in right for it in quoted),
            "shown": any(it in right for it in order),
            "answered": answers,
            "within": calls <= args.calls and tokens <= args.tokens,
            "calls": calls,
            "tokens": tokens,
        })
    code = tools.close()
    share = lambda name: round(sum(it[name] for it in rows) / len(rows), 3)
    tokens = sorted(it["tokens"] for it in rows)
    print(json.dumps({
        "questions": len(rows),
        "right place": {name: share(name) for name in ("first", "found first", "quoted", "shown")},
        "answered": share("answered"),
        "within calls and tokens": share("within"),
        "calls": {"mean": round(sum(it["calls"] for it in rows) / len(rows), 2), "most": max(it["calls"] for it in rows)},
        "tokens": {"median": round(tokens[len(tokens) // 2]), "most": round(tokens[-1])},
        "ended with": code,
    }, indent=1))


main()
