/* The C interface of evoq for a model that several callers run at once. See streams.h for what the
 * functions do. */
#ifndef EVOQ_STREAMS_C_H_
#define EVOQ_STREAMS_C_H_

#include "evoq/evoq_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct evoq_streams evoq_streams;

/* streams.h's StreamsOptions. What is 0 or NULL takes its default there; struct_size is
   sizeof(evoq_streams_options). */
typedef struct {
  size_t struct_size;
  const int* priorities;
  int stream_count; /* of `priorities`; 0: 2 streams, equally urgent */
  int threads;      /* 0: 1; -1: one per physical core */
  int at_once;
  int own_arenas; /* not 0: each stream has an arena of its own */
  size_t queue;
} evoq_streams_options;

/* How a run ended. */
enum { EVOQ_RAN = 0, EVOQ_FAILED = 1, EVOQ_CANCELLED = 2, EVOQ_LATE = 3 };

/* Called once for each run that was taken, on a thread of the streams. Outputs are there for
   EVOQ_RAN, until it returns; `error` is the reason for the others, else NULL. It may submit and
   cancel; it must not wait. */
typedef void (*evoq_streams_done)(void* user, int ending, const evoq_array* outputs,
                                  int output_count, const char* error);

/* NULL on failure, as evoq_session_load. options may be NULL. */
evoq_streams* evoq_streams_load(const char* path, const evoq_streams_options* options, char* error,
                                size_t error_size);
/* Cancels all runs and waits until each is told of. */
void evoq_streams_free(evoq_streams* streams);

/* As evoq_session_input_count and the others of evoq_c.h. */
int evoq_streams_input_count(const evoq_streams* streams);
int evoq_streams_output_count(const evoq_streams* streams);
const char* evoq_streams_input_name(const evoq_streams* streams, int index);
const char* evoq_streams_output_name(const evoq_streams* streams, int index);
int evoq_streams_input_type(const evoq_streams* streams, int index);
int evoq_streams_output_type(const evoq_streams* streams, int index);
int evoq_streams_input_shape(const evoq_streams* streams, int index, int64_t* shape, int capacity);
int evoq_streams_output_shape(const evoq_streams* streams, int index, int64_t* shape, int capacity);

/* How many streams there are, and how many runs go on at once. */
int evoq_streams_count(const evoq_streams* streams);
int evoq_streams_at_once(const evoq_streams* streams);
int64_t evoq_streams_arena_bytes(const evoq_streams* streams);

/* Asks for a run on copies of the inputs. deadline_s 0: none. Returns its number; 0 where it is
   refused, with the reason in error: `done` is not called then. */
uint64_t evoq_streams_submit(evoq_streams* streams, int stream, const evoq_array* inputs,
                             int input_count, double deadline_s, evoq_streams_done done, void* user,
                             char* error, size_t error_size);
/* 1: the run is given up; 0: it has ended, or was given up before. */
int evoq_streams_cancel(evoq_streams* streams, uint64_t run);
/* 0 on success, else 1: there is no such stream. */
int evoq_streams_set_priority(evoq_streams* streams, int stream, int priority, char* error,
                              size_t error_size);
/* Until all runs of the stream that were asked for have ended; -1: of all streams. */
void evoq_streams_wait(evoq_streams* streams, int stream);

#ifdef __cplusplus
}
#endif

#endif /* EVOQ_STREAMS_C_H_ */
