/* Riddle's reranker for C: which of these texts answer the question?
 *
 *     riddle_options options = {.size = sizeof options, .memory_budget = 250u << 20};
 *     riddle_reranker *reranker = riddle_open(&options);
 *     if (!reranker) { fprintf(stderr, "%s\n", riddle_last_error()); return 1; }
 *     riddle_result best[3];
 *     int64_t found = riddle_rank(reranker, query, documents, count, 3, best);
 *     riddle_free(reranker);
 *
 * Texts are UTF-8 and end with a zero byte. Nothing here prints, exits, or uses the network.
 */
#ifndef RIDDLE_H
#define RIDDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open reranker. Several threads may ask one; it computes one request at a time, on all cores. */
typedef struct riddle_reranker riddle_reranker;

/* How it is opened. Whatever is zero is left open. */
typedef struct riddle_options {
    size_t size;             /* sizeof(riddle_options) */
    const char *model;       /* folder of a model, or its name in the store; NULL: the one that comes with Riddle */
    const char *models_dir;  /* the store; NULL: Riddle's of this user */
    const char *cache_dir;   /* where the model that comes with Riddle is unpacked; NULL: the user's cache */
    const char *calibration; /* NULL: calibration.json in the model's folder, if it is there */
    const char *mode;        /* what leaving texts out may change: "off", "set" or "order"; NULL: as promised */
    double precision;        /* share of the results that stays, above 0 and below 1; 0: not said */
    uint64_t memory_budget;  /* bytes that the whole process may take; 0: no limit */
    uint32_t threads;        /* 0: all cores */
    uint32_t max_tokens;     /* longest pair; 0: what the model was made for */
} riddle_options;

/* A document and how well it answers. */
typedef struct riddle_result {
    size_t index;    /* which of the documents, from 0 */
    float score;     /* 0 to 1 */
    float raw_score; /* the logit */
} riddle_result;

/* Opens a reranker; NULL options leave everything open. NULL when it can not be opened. */
riddle_reranker *riddle_open(const riddle_options *options);

/* Puts documents in order: the best top_k (0: all) into results, best first. Returns how many, or -1.
 * There must be room for top_k results, or for count if that is fewer. */
int64_t riddle_rank(const riddle_reranker *reranker, const char *query, const char *const *documents, size_t count,
                    size_t top_k, riddle_result *results);

/* Closes a reranker, which nobody may be asking. NULL is fine. */
void riddle_free(riddle_reranker *reranker);

/* What went wrong last on this thread, in words; "" if nothing has. Holds until this thread's next call. */
const char *riddle_last_error(void);

/* The version of the library. */
const char *riddle_version(void);

#ifdef __cplusplus
}
#endif
#endif
