"""Many clients at once on a served library: errors, times, throughput.

    python tests/clients/load.py URL TOKEN [--clients 16] [--seconds 60] [--mixed-only]

Needs nothing but Python. First every client sends a mixture of calls for the given time; then reranks of one to some
dozen texts are sent one by one and by all clients at once, by turns, and their throughput is compared. Prints one JSON
object.
"""

import argparse
import http.client
import json
import threading
import time
import urllib.parse

QUERIES = ["winter mooring", "blue hull", "rye loaf", "oven", "anchorage fee", "When was the oven built?"]
TEXTS = [f"Passage {n} about a boat, its hull and its mooring in year {1900 + n}." for n in range(8)]
MORE_TEXTS = [f"Passage {n}: the hull of boat {n} was painted in {1900 + n}, and moored at pier {n}." for n in range(64)]


def calls(n):
    query = QUERIES[n % len(QUERIES)]
    return [
        ("search", "/api/search", {"query": query, "rerank": False}),
        ("search reranked", "/api/search", {"query": query}),
        ("rerank", "/v1/rerank", {"query": query, "documents": TEXTS}),
        ("rerank pruned", "/v1/rerank",
         {"query": query, "documents": TEXTS, "top_n": 3, "mode": "set", "precision": 0.9}),
        ("rerank traced", "/v1/rerank", {"query": query, "documents": TEXTS, "trace": True}),
        ("rerank by a deadline", "/v1/rerank", {"query": query, "documents": TEXTS, "deadline": 500}),
        ("embeddings", "/v1/embeddings", {"input": [query, TEXTS[n % 8]]}),
        ("ask", "/api/ask", {"question": query, "stream": False}),
        ("chat streamed", "/v1/chat/completions",
         {"messages": [{"role": "user", "content": query}], "stream": True}),
        ("status", "/api/status", None),
        ("mcp", "/mcp", {"jsonrpc": "2.0", "id": n, "method": "tools/call",
                         "params": {"name": "search", "arguments": {"query": query}}}),
    ]


class Client:
    def __init__(self, url, token, name):
        self.at = urllib.parse.urlsplit(url)
        self.heads = {"Authorization": f"Bearer {token}", "Content-Type": "application/json",
                      "X-Client-Name": name}
        self.refused = 0
        self.connection = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=120)

    def ask(self, path, body):
        """Status and seconds."""
        started = time.perf_counter()
        method = "GET" if body is None else "POST"
        data = None if body is None else json.dumps(body)
        try:
            while True:
                self.connection.request(method, path, data, self.heads)
                answer = self.connection.getresponse()
                said = answer.read()
                if answer.status != 429:
                    break
                # As clients are told to.
                self.refused += 1
                time.sleep(float(answer.headers.get("Retry-After", 1)))
            status = answer.status
            if path == "/mcp" and b'"error"' in said[:200]:
                status = "error of the protocol"
            return status, time.perf_counter() - started
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return type(error).__name__, time.perf_counter() - started


def together(count, work):
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def mixed(args):
    seen, lock = {}, threading.Lock()
    until = time.perf_counter() + args.seconds

    def work(n):
        client, turn = Client(args.url, args.token, f"client-{n}"), n
        while time.perf_counter() < until:
            all_calls = calls(turn)
            name, path, body = all_calls[turn % len(all_calls)]
            status, seconds = client.ask(path, body)
            with lock:
                seen.setdefault(name, []).append((status, seconds))
            turn += 1
        with lock:
            refused.append(client.refused)

    refused = []
    together(args.clients, work)
    report = {"told to come again": sum(refused)}
    for name, all_seen in sorted(seen.items()):
        times = [seconds for status, seconds in all_seen if status == 200]
        others = sorted({str(status) for status, _ in all_seen if status != 200})
        report[name] = {
            "calls": len(all_seen),
            "failed": len(all_seen) - len(times),
            "statuses": others,
            "p50_ms": round(1e3 * percentile(times, 0.5), 1),
            "p95_ms": round(1e3 * percentile(times, 0.95), 1),
        }
    return report


def throughput(args, clients, requests, texts):
    each = max(1, requests // clients)

    def work(n):
        client = Client(args.url, args.token, f"client-{n}")
        for turn in range(each):
            body = {"query": QUERIES[turn % len(QUERIES)], "documents": MORE_TEXTS[:texts]}
            status, _ = client.ask("/v1/rerank", body)
            assert status == 200, status

    started = time.perf_counter()
    together(clients, work)
    return each * clients / (time.perf_counter() - started)


def compared(args, texts):
    """Medians of rounds by turns: other programs of the machine disturb both alike."""
    one, many = [], []
    throughput(args, 1, 20, texts)
    for _ in range(args.rounds):
        one.append(throughput(args, 1, args.reranks, texts))
        many.append(throughput(args, args.clients, args.reranks, texts))
    middle = lambda of: sorted(of)[len(of) // 2]
    return {
        "one by one": round(middle(one), 1),
        f"{args.clients} at once": round(middle(many), 1),
        "ratio": round(middle(many) / middle(one), 2),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--reranks", type=int, default=320)
    parser.add_argument("--mixed-only", action="store_true", help="leave out the comparison of throughputs")
    parser.add_argument("--reranks-only", action="store_true", help="leave out the mixture")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.mixed_only:
        print(json.dumps({"mixed": mixed(args)}, indent=1))
        return
    report = {} if args.reranks_only else {"mixed": mixed(args)}
    report["reranks per second"] = {f"{texts} texts": compared(args, texts) for texts in (1, 2, 8, 32)}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
