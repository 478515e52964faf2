/* Runs a compiled model with libevoq_runtime and nothing else of evoq:
 *
 *   cc run_etm.c -levoq_runtime -o run_etm
 *   run_etm MODEL.etm INPUT OUTPUT [SIZE...]
 *
 * INPUT holds the elements of the model's only input, OUTPUT gets those of its first output. The
 * sizes are those of the input; without them it takes the model's, and 1 for free ones. */
#include <evoq/evoq_c.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMaxRank = 8 };

static int fail(const char* what) {
  fprintf(stderr, "run_etm: %s\n", what);
  return 1;
}

/* The whole file; NULL where it cannot be read. */
static void* read_file(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  const long size = ftell(file);
  rewind(file);
  void* bytes = malloc((size_t)size + 1);
  const size_t got = bytes == NULL ? 0 : fread(bytes, 1, (size_t)size, file);
  fclose(file);
  if (got == (size_t)size) return bytes;
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
    if (argc > 4) shape[i] = atoll(argv[4 + i]);
    if (shape[i] < 0) shape[i] = 1;
  }
  int status = 1;
  void* data = read_file(argv[2]);
  if (data == NULL || rank > kMaxRank || evoq_session_output_type(session, 0) != 1) {
    fail("cannot read the input, or the output is not float32");
  } else {
    const evoq_array input = {evoq_session_input_type(session, 0), rank, shape, data};
    status = run(session, &input, argv[3]);
  }
  free(data);
  evoq_session_free(session);
  return status;
}
