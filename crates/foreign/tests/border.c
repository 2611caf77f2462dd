/* A program in C, compiled and run by tests/border.rs: `border CACHE TINY`. */
#include <stdio.h>
#include <string.h>

#include "riddle.h"

#define CHECK(what)                                                                       \
    do {                                                                                  \
        if (!(what)) {                                                                    \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, riddle_last_error());   \
            return 1;                                                                     \
        }                                                                                 \
    } while (0)

static int says(const char *word) { return strstr(riddle_last_error(), word) != NULL; }

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(riddle_last_error()[0] == '\0');
    CHECK(strlen(riddle_version()) >= 5);
    const char *documents[] = {"The rye loaf rests.", "The hull of the boat is blue.", "It rained."};
    riddle_result results[3];

    riddle_options options = {.size = sizeof options, .cache_dir = argv[1], .threads = 1};
    riddle_reranker *reranker = riddle_open(&options);
    CHECK(reranker);
    CHECK(riddle_rank(reranker, "Which color has the boat?", documents, 3, 2, results) == 2);
    CHECK(results[0].index == 1 && results[0].score > results[1].score);
    CHECK(results[0].raw_score > results[1].raw_score);
    CHECK(riddle_rank(reranker, "Which color?", documents, 3, 0, results) == 3);
    CHECK(riddle_rank(reranker, "Which color?", documents, 3, 99, results) == 3);
    CHECK(riddle_rank(reranker, "Which color?", NULL, 0, 5, NULL) == 0);

    /* Whatever is wrong has words, and nothing ends the program. */
    CHECK(riddle_rank(NULL, "q", documents, 3, 2, results) == -1 && says("null"));
    CHECK(riddle_rank(reranker, NULL, documents, 3, 2, results) == -1 && says("query"));
    CHECK(riddle_rank(reranker, "", documents, 3, 2, results) == -1 && says("empty"));
    CHECK(riddle_rank(reranker, "q", NULL, 3, 2, results) == -1 && says("null"));
    CHECK(riddle_rank(reranker, "q", documents, 3, 2, NULL) == -1 && says("null"));
    documents[2] = NULL;
    CHECK(riddle_rank(reranker, "q", documents, 3, 2, results) == -1 && says("document 2"));
    documents[2] = "\xff";
    CHECK(riddle_rank(reranker, "q", documents, 3, 2, results) == -1 && says("UTF-8"));
    CHECK(riddle_rank(reranker, "q", documents, 2, 2, results) == 2);
    riddle_free(reranker);
    riddle_free(NULL);

    options.mode = "never";
    CHECK(!riddle_open(&options) && says("never"));
    options.mode = NULL;
    options.model = "/nowhere";
    CHECK(!riddle_open(&options) && says("/nowhere"));
    options.model = argv[2];
    options.precision = 0.9;
    CHECK(!riddle_open(&options) && says("calibration"));
    options.precision = 0;
    reranker = riddle_open(&options);
    CHECK(reranker);
    riddle_free(reranker);
    /* A program that was compiled with an older header, which ended before the numbers. */
    options.size = offsetof(riddle_options, precision);
    options.precision = 7;
    reranker = riddle_open(&options);
    CHECK(reranker);
    riddle_free(reranker);
    options.size = sizeof options + 8;
    CHECK(!riddle_open(&options) && says("sizeof"));
    options.size = 0;
    CHECK(!riddle_open(&options) && says("sizeof"));
    puts("ok");
    return 0;
}
