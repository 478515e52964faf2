// Traces of PyTorch's profiler, as it writes them on processors and on a GPU.
#include "foreign/profiles/test_files.h"

namespace evoq {
namespace {

using nlohmann::json;

json Event(const char* kind, const std::string& name, double begin, double us, int thread = 1,
           json args = json::object()) {
  return {{"ph", "X"},     {"cat", kind}, {"name", name}, {"pid", 1},
          {"tid", thread}, {"ts", begin}, {"dur", us},    {"args", std::move(args)}};
}
json Shaped(const std::string& name, double begin, double us, json dims, json types) {
  return Event("cpu_op", name, begin, us, 1,
               {{"Input Dims", std::move(dims)}, {"Input type", std::move(types)}});
}
json Step(int number, double begin, double us) {
  return Event("user_annotation", fmt::format("ProfilerStep#{}", number), begin, us);
}

class TorchTrace : public ProfileFiles {
 protected:
  Result<ForeignRun> Of(const std::vector<json>& events) const {
    return Source("pytorch").read(
        Write("trace.json", {{"schemaVersion", 1},
                             {"deviceProperties", {{{"id", 0}, {"name", "Board 7"}}}},
                             {"traceEvents", events}}));
  }
};

// "name ms", ...
std::string Times(const ForeignRun& run) {
  std::string out;
  for (const ForeignLayer& layer : run.layers)
    out += fmt::format("{}{} {:.4g}", out.empty() ? "" : ", ", layer.name, layer.ms);
  return out;
}
const ForeignLayer& Named(const ForeignRun& run, const std::string& name) {
  for (const ForeignLayer& layer : run.layers) {
    if (layer.name == name) return layer;
  }
  std::abort();
}

// Two runs of a convolution, a product with integers behind it and a copy: what encloses others
// counts, once, and between them is the host.
TEST_F(TorchTrace, OnAProcessor) {
  std::vector<json> events = {{{"ph", "M"}, {"name", "process_name"}}};
  for (const double at : {1000.0, 2000.0}) {
    events.push_back(Step(static_cast<int>(at) / 1000, at, 1000));
    events.push_back(Shaped("aten::conv2d", at + 100, 300,
                            {{1, 3, 8, 8}, {16, 3, 3, 3}, {16}, json::array()},
                            {"float", "float", "float", "ScalarList"}));
    events.push_back(Event("cpu_op", "aten::convolution", at + 110, 200));
    events.push_back(Event("cpu_op", "CompiledFunction", at + 450, 400));
    events.push_back(
        Shaped("aten::linear", at + 500, 200, {{1, 32}, {8, 32}}, {"c10::Half", "c10::Half"}));
    events.push_back(Event("cpu_op", "aten::_weight_int4pack_mm", at + 550, 50));
    events.push_back(Event("cpu_op", "aten::relu_", at + 700, at / 100));
    events.push_back(Event("cpu_op", "aten::to", at + 720, 80));
    events.push_back(Event("python_function", "nn.Module: Linear_0", at + 400, 500));
  }
  // Outside of the runs, and of another thread.
  events.push_back(Event("cpu_op", "aten::mul", 10, 500));
  events.push_back(Event("cpu_op", "aten::add", 2950, 10, 2));
  const auto run = Of(events);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->tool, "pytorch");
  EXPECT_EQ(run->device, "Board 7");
  EXPECT_TRUE(run->detailed);
  EXPECT_EQ(run->note, "");
  EXPECT_EQ(Times(*run),
            "before aten::conv2d_0 0.1, aten::conv2d_0 0.3, before aten::linear_0 0.1, "
            "aten::linear_0 0.2, aten::relu__0 0.015, before aten::to_0 0.005, aten::to_0 0.08, "
            "before aten::add_0 0.075, aten::add_0 0.005, behind the last one 0.12");
  EXPECT_NEAR(run->end_to_end_ms, 1, 1e-9);
  EXPECT_NEAR(run->layer_sum_ms, 1, 1e-9);
  const ForeignLayer& conv = Named(*run, "aten::conv2d_0");
  EXPECT_EQ(conv.group, LayerGroup::kConv);
  EXPECT_EQ(conv.precision, "fp32");
  EXPECT_EQ(conv.weight_count, 16 * 3 * 3 * 3);
  EXPECT_EQ(conv.kernel, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(conv.inputs.size(), 3u);
  const ForeignLayer& linear = Named(*run, "aten::linear_0");
  EXPECT_EQ(linear.group, LayerGroup::kMatMul);
  EXPECT_EQ(linear.precision, "int4") << "of the operator in it";
  EXPECT_EQ(linear.weight_count, 256);
  EXPECT_EQ(Named(*run, "aten::relu__0").group, LayerGroup::kElementwise);
  EXPECT_EQ(Named(*run, "aten::to_0").conversion, Conversion::kReformat);
  const auto lost = LostBy(Diagnose(*run, nullptr));
  EXPECT_NEAR(lost.at("host-bound"), 0.4, 1e-9);
  EXPECT_NEAR(lost.at("reformat-copies"), 0.08, 1e-9);
  EXPECT_NEAR(lost.at("stays-float"), 0.75 * 0.3, 1e-9);
}

// Kernels belong to the operators that launched them, run when they run, and wait for the host.
TEST_F(TorchTrace, OnADevice) {
  const auto launch = [](double at, int correlation) {
    return Event("cuda_runtime", "cudaLaunchKernel", at, 5, 1, {{"correlation", correlation}});
  };
  const auto kernel = [](const char* kind, const char* name, double at, double us,
                         int correlation) {
    return Event(kind, name, at, us, 7, {{"correlation", correlation}, {"stream", 7}});
  };
  const std::vector<json> events = {
      Step(0, 0, 100), Event("gpu_user_annotation", "ProfilerStep#0", 20, 120, 7),
      Event("cpu_op", "aten::copy_", 0, 20), launch(5, 1),
      kernel("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10, 10, 1),
      Event("cpu_op", "aten::linear", 30, 40), Event("cpu_op", "aten::mm", 35, 30), launch(40, 2),
      launch(50, 3), kernel("kernel", "gemm_bf16", 45, 3, 2), kernel("kernel", "split_k", 60, 2, 3),
      // Launched by no operator, and one whose launch the trace does not have.
      launch(90, 4), kernel("kernel", "graph_kernel", 95, 25, 4),
      kernel("gpu_memset", "Memset (Device)", 97, 1, 99)};
  const auto run = Of(events);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(Times(*run),
            "before aten::copy__0 0.01, aten::copy__0 0.01, before aten::linear_0 0.037, "
            "aten::linear_0 0.005, before graph_kernel_0 0.033, graph_kernel_0 0.025, "
            "Memset (Device)_0 0.001");
  EXPECT_NEAR(run->end_to_end_ms, 0.12, 1e-9) << "until the last kernel ends";
  EXPECT_EQ(Named(*run, "aten::linear_0").where, "gemm_bf16");
  const auto lost = LostBy(Diagnose(*run, nullptr));
  EXPECT_NEAR(lost.at("host-bound"), 0.08, 1e-9);
  EXPECT_NEAR(lost.at("copies-each-run"), 0.01, 1e-9);
  EXPECT_EQ(lost.count("reformat-copies"), 0u);
}

// Without steps all is one run; the words of older versions.
TEST_F(TorchTrace, WithoutStepsAndByOldNames) {
  const auto run = Of({Event("Operator", "aten::mm", 10, 40),
                       Event("Runtime", "cudaLaunch", 20, 5, 1, {{"correlation", 1}}),
                       Event("Kernel", "gemm", 60, 100, 7, {{"correlation", 1}})});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(Times(*run), "before aten::mm_0 0.04, aten::mm_0 0.1");
  EXPECT_EQ(run->note, "the trace has no steps (profiler.step()): all of it counts as one run");
  EXPECT_FALSE(run->detailed);
}

// As a trace of a V100 by PyTorch 1.8 has it: threads are texts, of which one launches what another
// one's operator encloses by its time, and kernels run that were launched before the trace began.
TEST_F(TorchTrace, ThreadsAndWorkOfTheRunBefore) {
  const auto of_thread = [](json event, const char* thread) {
    event["tid"] = thread;
    return event;
  };
  std::vector<json> events = {
      of_thread(Event("Operator", "ProfilerStep#5", 100, 100), "main"),
      of_thread(Event("Operator", "aten::wait", 105, 90), "main"),
      of_thread(Event("Operator", "aten::mm", 110, 30), "backward"),
      of_thread(Event("Runtime", "cudaLaunchKernel", 120, 5, 1, {{"correlation", 7}}), "backward"),
      of_thread(Event("Kernel", "old", 90, 40, 1, {{"correlation", 1}, {"external id", 0}}),
                "stream 7"),
      of_thread(Event("Kernel", "gemm", 150, 60, 1, {{"correlation", 7}}), "stream 7")};
  const auto run = Of(events);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(Times(*run), "before aten::mm_0 0.02, aten::mm_0 0.06");
  EXPECT_NEAR(run->end_to_end_ms, 0.08, 1e-12) << "behind the old kernel";
}

// What export_chrome_trace writes for a name that ends in .gz.
TEST_F(TorchTrace, Compressed) {
  // [{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":0,"dur":2}]
  ASSERT_TRUE(WriteFileAtomic(
      At("t.json.gz"),
      std::string("\037\213\010\000\000\000\000\000\002\003\213\256\126\052\310\120\262\122\212\120"
                  "\322\121\112\116\054\001\262\222\013\112\343\363\013\200\334\274\304\334\124\040"
                  "\077\261\044\065\317\312\052\067\027\050\122\122\254\144\145\240\243\224\122\132"
                  "\244\144\145\124\033\013\000\112\267\024\143\074\000\000\000",
                  75)));
  const auto run = Source("pytorch").read(At("t.json.gz"));
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(Times(*run), "aten::mm_0 0.002");
  const auto found = FindForeignFile(At("t.json.gz"));
  ASSERT_TRUE(found && found->source != nullptr);
  EXPECT_EQ(std::string(found->source->tool), "pytorch");
  // In a folder the name has to say what is packed.
  const auto in_folder = [&] { return FindForeignFile(folder_.string())->source; };
  EXPECT_EQ(in_folder(), found->source);
  std::filesystem::rename(At("t.json.gz"), At("images-idx3-ubyte.gz"));
  EXPECT_EQ(in_folder(), nullptr);
}

TEST_F(TorchTrace, WhatIsNone) {
  const auto error = [](const Result<ForeignRun>& run) {
    return run ? std::string() : run.error().message();
  };
  EXPECT_NE(error(Of({Step(0, 0, 10)})).find("no operators and no kernels"), std::string::npos);
  ASSERT_TRUE(WriteFileAtomic(At("t.json.gz"), std::string("\x1f\x8b\x08")));
  EXPECT_EQ(error(Source("pytorch").read(At("t.json.gz"))),
            At("t.json.gz") + ": gzip: cannot be unpacked: the data ends too early");
  // Members of other types, durations below 0, operators that no step has.
  json odd = Event("cpu_op", "aten::mm", 0, 1);
  odd["ts"] = "soon";
  odd["args"] = {{"Input Dims", {{"n", 2}, 7}}, {"Input type", {"float", 3}}};
  const auto run = Of({Step(0, 100, 10), odd, Event("cpu_op", "aten::mul", 0, -1), json(3),
                       Event("cpu_op", "aten::mm", 104, 1)});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(Times(*run), "before aten::mm_0 0.004, aten::mm_0 0.001, behind the last one 0.005");
}

}  // namespace
}  // namespace evoq
