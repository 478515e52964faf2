/* Runs a compiled model with libevoq_runtime and nothing else of evoq:
 *
 *   cc run_etm.c -levoq_runtime -o run_etm
 *   run_etm MODEL.etm INPUT OUTPUT [SIZE...]
 *
 * INPUT holds the elements of the model's only input and nothing else; OUTPUT gets those of its
 * first output. The sizes are those of the input; without them it takes the model's, and 1 for free
 * ones. */
#include <evoq/evoq_c.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMaxRank = 8 };

static int fail(const char* what) {
  fprintf(stderr, "run_etm: %s\n", what);
  return 1;
}

/* Bytes of an element of ONNX's type; 0 for a type that arrays do not carry. */
static size_t element_bytes(int type) {
  static const unsigned char bytes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4,
                                        8, 0, 0, 2, 1, 1, 1, 1, 0, 0, 0, 1};
  return type >= 0 && type < (int)sizeof(bytes) ? bytes[type] : 0;
}

/* Bytes of an array of that type and shape; 0 where it has none, or more than there can be. */
static size_t array_bytes(int type, int rank, const int64_t* shape) {
  size_t bytes = element_bytes(type);
  for (int i = 0; i < rank; ++i) {
    if (shape[i] <= 0 || bytes > SIZE_MAX / 2 / (size_t)shape[i]) return 0;
    bytes *= (size_t)shape[i];
  }
  return bytes;
}

/* The file's content where it is so many bytes long, else NULL. */
static void* read_file(const char* path, size_t size) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  void* bytes = malloc(size);
  const int whole = bytes != NULL && fread(bytes, 1, size, file) == size && fgetc(file) == EOF;
  fclose(file);
  if (whole) return bytes;
  free(bytes);
  return NULL;
}

static int run(evoq_session* session, const evoq_array* input, const char* output_path) {
  char error[500] = "";
  evoq_array output;
  if (evoq_session_compute(session, input, 1, error, sizeof(error)) != 0) return fail(error);
  if (evoq_session_result(session, 0, &output) != 0) return fail("no output");
  size_t elements = 1;
  printf("output");
  for (int i = 0; i < output.rank; ++i) {
    printf(" %lld", (long long)output.shape[i]);
    elements *= (size_t)output.shape[i];
  }
  printf("\n");
  FILE* file = fopen(output_path, "wb");
  if (file == NULL) return fail("cannot write the output");
  const size_t written = fwrite(output.data, sizeof(float), elements, file);
  return fclose(file) == 0 && written == elements ? 0 : fail("cannot write the output");
}

int main(int argc, char** argv) {
  if (argc < 4 || argc - 4 > kMaxRank) return fail("MODEL.etm INPUT OUTPUT [SIZE...]");
  char error[500] = "";
  evoq_session* session = evoq_session_load(argv[1], 1, error, sizeof(error));
  if (session == NULL) return fail(error);
  int64_t shape[kMaxRank];
  int rank = evoq_session_input_shape(session, 0, shape, kMaxRank);
  if (argc > 4) rank = argc - 4;
  for (int i = 0; i < rank && i < kMaxRank; ++i) {
    if (argc > 4) {
      shape[i] = atoll(argv[4 + i]);
    } else if (shape[i] < 0) {
      shape[i] = 1;
    }
  }
  int status = 1;
  void* data = NULL;
  const int type = evoq_session_input_type(session, 0);
  const size_t bytes = rank < 0 || rank > kMaxRank ? 0 : array_bytes(type, rank, shape);
  if (evoq_session_output_type(session, 0) != 1) {
    fail("the output is not float32");
  } else if (bytes == 0) {
    fail("no input of these sizes");
  } else if ((data = read_file(argv[2], bytes)) == NULL) {
    fprintf(stderr, "run_etm: %s: expected a file of %zu bytes\n", argv[2], bytes);
  } else {
    const evoq_array input = {type, rank, shape, data};
    status = run(session, &input, argv[3]);
  }
  free(data);
  evoq_session_free(session);
  return status;
}
