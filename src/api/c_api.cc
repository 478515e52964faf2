#include "evoq/evoq_c.h"

#include <algorithm>
#include <cstring>

#include "evoq/evoq.h"

struct evoq_session {
  evoq::Session session;
  std::vector<evoq::Array> inputs, outputs;
};

namespace {

void Copy(const std::string& text, char* to, size_t size) {
  if (to == nullptr || size == 0) return;
  const size_t n = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

int WriteShape(const std::vector<evoq::ArrayInfo>& infos, int index, int64_t* shape, int capacity) {
  if (index < 0 || static_cast<size_t>(index) >= infos.size()) return -1;
  const auto& sizes = infos[index].shape;
  for (int i = 0; i < capacity && static_cast<size_t>(i) < sizes.size(); ++i) shape[i] = sizes[i];
  return static_cast<int>(sizes.size());
}

const char* NameOf(const std::vector<evoq::ArrayInfo>& infos, int index) {
  return index < 0 || static_cast<size_t>(index) >= infos.size() ? nullptr : infos[index].name.c_str();
}

bool SameShape(const evoq_array& a, const evoq::Array& b) {
  return a.type == static_cast<int>(b.type) && a.rank >= 0 && static_cast<size_t>(a.rank) == b.shape.size() &&
         std::equal(b.shape.begin(), b.shape.end(), a.shape);
}

}  // namespace

extern "C" {

evoq_session* evoq_session_load(const char* path, int threads, char* error, size_t error_size) {
  std::string why;
  auto session = evoq::Session::Load(path, {threads}, &why);
  if (session) return new evoq_session{std::move(*session), {}, {}};
  Copy(why, error, error_size);
  return nullptr;
}

void evoq_session_free(evoq_session* session) { delete session; }

int evoq_session_input_count(const evoq_session* s) { return static_cast<int>(s->session.inputs().size()); }
int evoq_session_output_count(const evoq_session* s) { return static_cast<int>(s->session.outputs().size()); }
const char* evoq_session_input_name(const evoq_session* s, int i) { return NameOf(s->session.inputs(), i); }
const char* evoq_session_output_name(const evoq_session* s, int i) { return NameOf(s->session.outputs(), i); }
int evoq_session_input_shape(const evoq_session* s, int i, int64_t* shape, int capacity) {
  return WriteShape(s->session.inputs(), i, shape, capacity);
}
int evoq_session_output_shape(const evoq_session* s, int i, int64_t* shape, int capacity) {
  return WriteShape(s->session.outputs(), i, shape, capacity);
}

int evoq_session_compute(evoq_session* s, const evoq_array* inputs, int input_count, char* error, size_t error_size) {
  s->inputs.resize(static_cast<size_t>(std::max(input_count, 0)));
  for (int i = 0; i < input_count; ++i) {
    evoq::Array& a = s->inputs[i];
    a.type = static_cast<evoq::ElementType>(inputs[i].type);
    a.shape.assign(inputs[i].shape, inputs[i].shape + inputs[i].rank);
    a.bytes.resize(a.size() * evoq::ElementBytes(a.type));
    if (!a.bytes.empty()) std::memcpy(a.bytes.data(), inputs[i].data, a.bytes.size());
  }
  std::string why;
  if (s->session.Run(s->inputs, &s->outputs, &why)) return 0;
  Copy(why, error, error_size);
  return 1;
}

int evoq_session_result(evoq_session* s, int index, evoq_array* result) {
  if (index < 0 || static_cast<size_t>(index) >= s->outputs.size()) return 1;
  evoq::Array& a = s->outputs[index];
  *result = {static_cast<int>(a.type), static_cast<int>(a.shape.size()), a.shape.data(), a.bytes.data()};
  return 0;
}

int evoq_session_run(evoq_session* s, const evoq_array* inputs, int input_count, const evoq_array* outputs, int output_count,
                     char* error, size_t error_size) {
  if (evoq_session_compute(s, inputs, input_count, error, error_size) != 0) return 1;
  if (static_cast<size_t>(output_count) != s->outputs.size()) {
    Copy("the number of outputs differs from the model's", error, error_size);
    return 1;
  }
  for (int i = 0; i < output_count; ++i) {
    if (!SameShape(outputs[i], s->outputs[i])) {
      Copy("output " + std::to_string(i) + ": type or shape differs from the model's", error, error_size);
      return 1;
    }
    if (!s->outputs[i].bytes.empty()) std::memcpy(outputs[i].data, s->outputs[i].bytes.data(), s->outputs[i].bytes.size());
  }
  return 0;
}

const char* evoq_version(void) { return evoq::Version(); }

}  // extern "C"
