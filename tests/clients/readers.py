"""Many readers of a shared library at once, beside the home of the same passages: errors and times.

    python tests/clients/readers.py URL TOKEN QUERIES.jsonl LIBRARY [--readers 1,4,16,64] [--seconds 30]

`riddle serve` has the home open and knows the library; the token is of a program that reads as somebody
(`riddle clients add NAME --user USER`). Every reader searches one question after the other, without reranking and
without a pause, first the home, then the library. Prints one JSON object for each number of readers and each place.
"""

import argparse
import json
import time

from load import Client, together


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("queries")
    parser.add_argument("library")
    parser.add_argument("--readers", default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    queries = [json.loads(line)["text"] for line in open(args.queries, encoding="utf-8")]
    for readers in map(int, args.readers.split(",")):
        for place in ("home", args.library):
            took, wrong, refused = [], {}, [0]

            def read(number):
                client = Client(args.url, args.token, f"reader-{number}")
                end, at = time.perf_counter() + args.seconds, 7 * number
                while time.perf_counter() < end:
                    body = {"query": queries[at % len(queries)], "rerank": False, "libraries": [place]}
                    status, seconds = client.ask("/api/search", body)
                    took.append(seconds)
                    if status != 200:
                        wrong[str(status)] = wrong.get(str(status), 0) + 1
                    at += 1
                refused[0] += client.refused

            started = time.perf_counter()
            together(readers, read)
            # The last search of a reader may end long after its time.
            elapsed = time.perf_counter() - started
            took.sort()
            at = lambda share: round(1000 * took[min(len(took) - 1, int(share * len(took)))], 1)
            print(json.dumps({
                "readers": readers, "place": place, "searches": len(took),
                "per_second": round(len(took) / elapsed, 1),
                "p50_ms": at(0.5), "p95_ms": at(0.95), "errors": wrong, "told_to_wait": refused[0],
            }), flush=True)


if __name__ == "__main__":
    main()
