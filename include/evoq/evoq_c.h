/* The C interface of evoq: stable, for bindings from other languages. See evoq.h for what the
 * functions do. One run of a session at a time, of any thread (a second one is an error that says
 * so); several sessions may run at once. One model for several callers is streams_c.h. */
#ifndef EVOQ_EVOQ_C_H_
#define EVOQ_EVOQ_C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct evoq_session evoq_session;

/* A dense row-major array in the caller's memory. `type` is ONNX's TensorProto.DataType number, one
   of evoq.h's ElementType. shape may be NULL for rank 0, data where a size is 0. */
typedef struct {
  int type;
  int rank;
  const int64_t* shape;
  void* data;
} evoq_array;

/* NULL on failure, with the reason in error[0 .. error_size), cut to fit and terminated. threads 0:
 * all physical cores. */
evoq_session* evoq_session_load(const char* path, int threads, char* error, size_t error_size);
/* As evoq_session_load, of the `size` bytes of an .etm in memory. With copy 0 they begin at a
   multiple of 64 bytes (else they are refused), are read where they lie, never written to, and stay
   as they are until the session is freed; any number of sessions may share them. Else they begin
   anywhere, are copied, and may go when this returns. libevoq also takes the bytes of an ONNX or
   TensorFlow Lite file, which begin anywhere and may go in any case. */
evoq_session* evoq_session_load_memory(const void* data, size_t size, int copy, int threads,
                                       char* error, size_t error_size);
void evoq_session_free(evoq_session* session);

/* How scale sets follow the input: evoq.h's AdaptiveSettings. What is 0 or NULL takes its default
   there (a clip limit of 0 too; a negative one is 0). */
typedef struct {
  double clip_limit;
  int widen_after;
  int narrow_after;
  int look_every;
  const char* scale_set;
} evoq_adaptive_settings;

/* As evoq_session_load, of a model whose scale sets follow the input. settings may be NULL. */
evoq_session* evoq_session_load_adaptive(const char* path, int threads,
                                         const evoq_adaptive_settings* settings, char* error,
                                         size_t error_size);
/* As evoq_session_load, of a model of 8-bit numbers whose ranges are watched: clip rates as of an
   adaptive session, also where it has one set of scales. */
evoq_session* evoq_session_load_watched(const char* path, int threads, char* error,
                                        size_t error_size);
/* Scale sets of an adaptive session; 0 of another one. */
int evoq_session_scale_set_count(const evoq_session* session);
/* Lives as long as the session; NULL when the index is out of range. */
const char* evoq_session_scale_set_name(const evoq_session* session, int index);
/* The set of the next run, and how often it has changed; -1 where the session is not adaptive. */
int evoq_session_scale_set(const evoq_session* session);
int64_t evoq_session_scale_set_switches(const evoq_session* session);
/* Further runs use the set of this name; NULL: they change again. 0 on success, else 1. */
int evoq_session_pin_scale_set(evoq_session* session, const char* name, char* error,
                               size_t error_size);
/* Watched tensors, known after the first run. Names live until the next run. */
int evoq_session_watched_count(const evoq_session* session);
const char* evoq_session_watched_name(const evoq_session* session, int index);
/* The share of the tensor's elements, of those that were looked at, that was cut off; -1 when the
   index is out of range. */
double evoq_session_clip_rate(const evoq_session* session, int index);

/* What served the runs so far: evoq.h's SizesReport without the sizes themselves. struct_size is
   sizeof(evoq_sizes). */
typedef struct {
  size_t struct_size;
  int64_t gears, ready;
  int64_t runs, padded, misses;
  double miss_ms, worst_miss_ms;
  int64_t prepared_beside;
  double beside_ms;
} evoq_sizes;
/* 0 on success, else 1. */
int evoq_session_sizes(const evoq_session* session, evoq_sizes* sizes, char* error,
                       size_t error_size);
/* How often which sizes came, as lines: the file of `evoq compile --suggest-gears`. Lives until the
   next call; NULL where memory is short. */
const char* evoq_session_sizes_text(evoq_session* session);
/* Until all gears of the file are prepared. */
void evoq_session_wait_for_gears(evoq_session* session);

int evoq_session_input_count(const evoq_session* session);
int evoq_session_output_count(const evoq_session* session);
/* The element type, ONNX's number; 0 when the index is out of range. */
int evoq_session_input_type(const evoq_session* session, int index);
int evoq_session_output_type(const evoq_session* session, int index);
/* Names live as long as the session; NULL when the index is out of range. */
const char* evoq_session_input_name(const evoq_session* session, int index);
const char* evoq_session_output_name(const evoq_session* session, int index);
/* Writes at most `capacity` sizes (-1: free) and returns the rank; -1 when the index is out of
 * range. */
int evoq_session_input_shape(const evoq_session* session, int index, int64_t* shape, int capacity);
int evoq_session_output_shape(const evoq_session* session, int index, int64_t* shape, int capacity);

/* Runs once. Inputs in order; outputs must have the model's types and shapes for these inputs: else
 * none is written. 0 on success, else 1. */
int evoq_session_run(evoq_session* session, const evoq_array* inputs, int input_count,
                     const evoq_array* outputs, int output_count, char* error, size_t error_size);

/* The same without a copy: inputs are read where they lie and outputs written into the caller's
   buffers (a model that runs in dynamic partitions copies each output once). Data must be aligned
   as its elements are, and an output must overlap neither an input nor another output: else none is
   written. After another error outputs hold anything. evoq_session_result gives nothing of it.
   0 on success, else 1. */
int evoq_session_run_on(evoq_session* session, const evoq_array* inputs, int input_count,
                        const evoq_array* outputs, int output_count, char* error,
                        size_t error_size);

/* As evoq_session_run where the outputs' shapes are not known before: evoq_session_result gives
   them.
   0 on success, else 1. */
int evoq_session_compute(evoq_session* session, const evoq_array* inputs, int input_count,
                         char* error, size_t error_size);
/* Output `index` of the last run; its shape and data belong to the session and are valid until its
   next run. 0 on success, else 1: there is none after a run that failed. */
int evoq_session_result(evoq_session* session, int index, evoq_array* result);

const char* evoq_version(void);

#ifdef __cplusplus
}
#endif

#endif /* EVOQ_EVOQ_C_H_ */
