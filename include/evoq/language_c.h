/* The C interface of evoq to language models: stable, for bindings from other languages. See
 * language.h for what the functions do; libevoq has it, libevoq_runtime does not.
 *
 *   static int show(const char* text, size_t size, void* file) {
 *     return fwrite(text, 1, size, file) != size;
 *   }
 *   ...
 *   char error[500];
 *   evoq_language* model = evoq_language_load("qwen2.etm", NULL, error, sizeof(error));
 *   if (model == NULL ||
 *       evoq_language_generate(model, "Once upon a time", NULL, show, stdout, NULL, error,
 *                              sizeof(error)) != 0)
 *     fprintf(stderr, "%s\n", error);
 *   evoq_language_free(model);
 *
 * Functions that can fail return 0 on success, else 1 (or NULL), with the reason in
 * error[0 .. error_size), cut to fit and terminated. Texts are UTF-8. One call at a time; encode,
 * decode and chat may be called from any number of threads at any time. */
#ifndef EVOQ_LANGUAGE_C_H_
#define EVOQ_LANGUAGE_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct evoq_language evoq_language;

/* Each struct begins with its size, sizeof(evoq_language_options), ...: later versions may have
 * more members behind. A member that is 0 or NULL, and one that a smaller size leaves out, has its
 * default. */
typedef struct {
  size_t size;
  int threads;           /* 0: one per physical core */
  int64_t context;       /* tokens of a sequence; 0: what the model was made for, at most 4096 */
  const char* tokenizer; /* its file or folder; NULL: the one that the model carries */
  const char* draft;     /* a smaller model of the same tokens; NULL: none */
  const char* kv_cache;  /* what caches hold: "float32", "float16", "int8"; NULL: as the model */
  int64_t sequences;     /* the most beams of a text; 0: 1 */
} evoq_language_options;

/* options may be NULL. */
evoq_language* evoq_language_load(const char* path, const evoq_language_options* options,
                                  char* error, size_t error_size);
void evoq_language_free(evoq_language* model);

int64_t evoq_language_vocabulary(const evoq_language* model);
int64_t evoq_language_context(const evoq_language* model);
int64_t evoq_language_cache_bytes(const evoq_language* model);

/* Writes the first `capacity` tokens of the text and says in *count how many there are.
 * add_special 0: without what the tokenizer puts around a text. */
int evoq_language_encode(const evoq_language* model, const char* text, int add_special,
                         int64_t* tokens, size_t capacity, size_t* count, char* error,
                         size_t error_size);
/* Writes the first `capacity` bytes of the tokens' text, without a terminator, and says in *bytes
 * how many there are. special 0: without special pieces. */
int evoq_language_decode(const evoq_language* model, const int64_t* tokens, size_t count,
                         int special, char* text, size_t capacity, size_t* bytes, char* error,
                         size_t error_size);
/* The same with the text of a chat, to be encoded with add_special 0. `variables` is what the
 * model's template gets, JSON: {"messages": [{"role": "user", "content": "..."}],
 * "add_generation_prompt": true, "tools": [...], ...}. */
int evoq_language_chat(const evoq_language* model, const char* variables, char* text,
                       size_t capacity, size_t* bytes, char* error, size_t error_size);

typedef struct {
  size_t size;
  int64_t max_tokens;    /* 0: 128 */
  double temperature;    /* 0: always the likeliest token */
  int64_t top_k;         /* 0: from all */
  double top_p;          /* 0: 1, from all */
  double min_p;          /* 0: from all */
  double repeat_penalty; /* 0: 1, none */
  uint64_t seed;
  const char* const* stop; /* texts that end it */
  size_t stop_count;
  int ignore_end;          /* 1: goes on behind the model's end tokens */
  int plain;               /* 1: without what the tokenizer puts around a prompt: for a chat's */
  const char* grammar;     /* what the text is of, llama.cpp's GBNF; NULL: anything */
  const char* json_schema; /* the same of a JSON text, in place of a grammar */
  int64_t beams;           /* beam search: so many texts are followed; 0: 1 */
  double length_penalty; /* of beams, whose scores are divided by the length to this power; 0: what
                          * the model says, or 1 */
  /* Of models that read one text and write another: "fra_Latn", "fr_XX", "fr"; NULL: what the model
   * takes by itself. */
  const char *source_language, *target_language;
} evoq_generate_options;

/* What a text took. Set `size` before the call. */
typedef struct {
  size_t size;
  const char* ended;     /* "end", "stop", "length", "context" or "cancelled": static */
  const int64_t* tokens; /* of the text: valid until the next call but encode, decode, chat */
  size_t token_count;
  int64_t prompt_tokens; /* that were run: without those that the cache had */
  double prompt_ms;      /* until the first token was chosen */
  double decode_ms;      /* of all tokens behind the first */
  double host_ms;        /* of decode_ms, what passed outside of the models */
  int64_t drafted, accepted;
} evoq_generated;

/* Gets each piece of text as its characters are complete, without a terminator; not 0: the text
 * ends there. It may call encode, decode and chat, and nothing else of the model. */
typedef int (*evoq_on_text)(const char* text, size_t bytes, void* user);

/* Continues a text, or tokens. options, on_text and generated may be NULL. */
int evoq_language_generate(evoq_language* model, const char* prompt,
                           const evoq_generate_options* options, evoq_on_text on_text, void* user,
                           evoq_generated* generated, char* error, size_t error_size);
int evoq_language_generate_tokens(evoq_language* model, const int64_t* prompt, size_t count,
                                  const evoq_generate_options* options, evoq_on_text on_text,
                                  void* user, evoq_generated* generated, char* error,
                                  size_t error_size);

/* The logits [last, vocabulary] behind each of the last so many tokens, into logits[0 .. last *
 * vocabulary). */
int evoq_language_logits(evoq_language* model, const int64_t* tokens, size_t count, int64_t last,
                         float* logits, char* error, size_t error_size);

/* The tokens whose keys and values are kept: none; to a file and from one. */
void evoq_language_forget(evoq_language* model);
int evoq_language_save(const evoq_language* model, const char* path, char* error,
                       size_t error_size);
int evoq_language_restore(evoq_language* model, const char* path, char* error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif /* EVOQ_LANGUAGE_C_H_ */
