// Cases of gradient_test.cc: graphs as text, of N samples, whose result is %y.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <regex>
#include <string>

namespace evoq {

// The data of most cases: %d depends on the parameter %shift.
inline std::string Data(const std::string& sizes) {
  return "input %x: float32[N, " + sizes + "]\nconst %shift: float32[1, " + sizes +
         "]\nadd: %d = Add(%x, %shift)\n";
}

inline const std::string kImages = Data("4, 7, 6");

using AddCase = std::function<void(const std::string& name, const std::string& text)>;

// Operators that move elements.
inline void AddMoves(const std::string& images, const AddCase& add) {
  add("Slice", images +
                   "const %b: int64[2] = [1, 5]\nconst %e: int64[2] = [3, -7]\n"
                   "const %a: int64[2] = [1, 3]\nconst %s: int64[2] = [1, -2]\n"
                   "c: %y = Slice(%d, %b, %e, %a, %s)");
  for (const char* mode : {"constant", "reflect", "edge", "wrap"})
    add(std::string("Pad ") + mode, images +
                                        "const %p: int64[8] = [0, 1, 2, 0, 0, 0, 1, 3]\nc: %y = "
                                        "Pad{mode=\"" +
                                        mode + "\"}(%d, %p)");
  add("Pad with a value", images +
                              "const %p: int64[2] = [1, -2]\nconst %v: float32[] = [3.5]\n"
                              "const %a: int64[1] = [2]\nc: %y = Pad(%d, %p, %v, %a)");
  add("Split", images +
                   "const %s: int64[2] = [3, 1]\nc: %u, %v = Split{axis=1}(%d, %s)\n"
                   "t: %t = Tanh(%u)\nm: %y = Mul(%t, %v)");
  add("Split of which one part is read",
      images + "c: %u, %v = Split{axis=2, num_outputs=2}(%d)\nt: %y = Tanh(%v)");
  add("Expand", Data("1, 3, 1") + "const %s: int64[4] = [1, 2, 1, 5]\nc: %y = Expand(%d, %s)");
  add("Tile", Data("3, 2") + "const %s: int64[3] = [1, 2, 3]\nc: %y = Tile(%d, %s)");
  add("DepthToSpace", Data("8, 3, 2") + "c: %y = DepthToSpace{blocksize=2, mode=\"CRD\"}(%d)");
  add("SpaceToDepth", Data("3, 4, 2") + "c: %y = SpaceToDepth{blocksize=2}(%d)");
  add("Trilu", Data("4, 5") + "c: %y = Trilu{upper=0}(%d)");
}

// Sequences: x [samples, steps, inputs] with the batch behind the steps, or (layout 1) before them;
// to all states, to the last alone, or (layout 1) to both.
inline void AddRecurrent(const AddCase& add) {
  const std::string first = Data("3, 4"),
                    turned = first + "t: %t = Transpose{perm=[1, 0, 2]}(%d)\n";
  const auto cell = [&](const std::string& op, int gates, const std::string& attrs,
                        int directions = 1, bool layout = false) {
    const auto weights = [&](const char* name, int columns) {
      return fmt::format("const %{}: float32[{}, {}, {}]\n", name, directions, gates * 5, columns);
    };
    const std::string data = (layout ? first : turned) + weights("w", 4) + weights("r", 5);
    const std::string name = op + (attrs.empty() ? "" : ", " + attrs) + (layout ? ", layout" : "");
    const std::string call = op + "{hidden_size=5" + (layout ? ", layout=1" : "") +
                             (attrs.empty() ? "" : ", " + attrs) + "}(" + (layout ? "%d" : "%t") +
                             ", %w, %r";
    add(name, data + fmt::format("const %b: float32[{}, {}]\n", directions, gates * 10) +
                  "c: %s, %h = " + call + ", %b)\n" +
                  (layout ? "const %a: int64[1] = [1]\nu: %u = Unsqueeze(%h, %a)\n"
                            "m: %y = Mul(%s, %u)"
                          : "a: %a = Tanh(%s)\nb: %y = Transpose{perm=[2, 0, 1, 3]}(%a)"));
    add(name + ", last state", data + "c: _, %h = " + call + ")\n" +
                                   (layout ? "a: %y = Tanh(%h)"
                                           : "a: %a = Tanh(%h)\n"
                                             "b: %y = Transpose{perm=[1, 0, 2]}(%a)"));
  };
  for (const auto& [op, gates] : {std::pair("LSTM", 4), {"GRU", 3}, {"RNN", 1}}) {
    cell(op, gates, "");
    cell(op, gates, "direction=\"reverse\"");
    cell(op, gates, "direction=\"bidirectional\"", 2);
    cell(op, gates, "direction=\"bidirectional\"", 2, true);
    const std::string sizes = fmt::format(
        "const %w: float32[1, {}, 4]\nconst %r: float32[1, {}, 5]\n", gates * 5, gates * 5);
    const std::string states =
        turned + sizes +
        "const %v: float32[4, 5]\nm: %hs = MatMul(%t, %v)\nconst %axis: int64[1] = [0]\n"
        "s: %h0 = ReduceMean(%hs, %axis)\n";
    const std::string turn = "b: %y = Transpose{perm=[1, 0, 2]}(";
    add(op + std::string(" from a computed state"),
        states + "c: _, %h = " + op + "{hidden_size=5}(%t, %w, %r, _, _, %h0)\n" + turn + "%h)");
    if (op != std::string("LSTM")) continue;
    for (const char* used : {"%h", "%c"})
      add(std::string("LSTM from computed states to ") + used,
          states +
              "g: %c0 = Tanh(%h0)\nc: _, %h, %c = LSTM{hidden_size=5}(%t, %w, %r, _, _, "
              "%h0, %c0)\n" +
              turn + used + ")");
  }
  cell("GRU", 3, "linear_before_reset=1");
  cell("GRU", 3, "linear_before_reset=1, direction=\"bidirectional\"", 2, true);
  cell("RNN", 1, "activations=[\"Relu\"]");
}

// Normalizations of each sample.
inline void AddNorms(const std::string& images, const AddCase& add) {
  const std::string of = "const %g: float32[C]\nconst %b: float32[C]\nc: %y = ";
  const auto norm = [&](const std::string& name, const std::string& data, const std::string& sizes,
                        const std::string& op, const std::string& inputs) {
    add(name, data + std::regex_replace(of, std::regex("C"), sizes) + op + inputs);
  };
  const std::string both = "(%d, %g, %b)";
  norm("LayerNormalization", Data("3, 19"), "19", "LayerNormalization{epsilon=0.01}", both);
  norm("LayerNormalization of images", images, "4, 7, 6", "LayerNormalization{axis=1}", both);
  norm("LayerNormalization with one scale a row", images, "7, 1", "LayerNormalization{axis=2}",
       both);
  add("LayerNormalization without bias",
      images + "const %g: float32[6]\nc: %y = LayerNormalization(%d, %g)");
  add("LayerNormalization without bias, broadcast",
      images + "const %g: float32[7, 1]\nc: %y = LayerNormalization{axis=-2}(%d, %g)");
  add("RMSNormalization", images + "const %g: float32[6]\nc: %y = RMSNormalization(%d, %g)");
  add("RMSNormalization of two axes",
      images + "const %g: float32[7, 6]\nc: %y = RMSNormalization{axis=2, epsilon=0.1}(%d, %g)");
  norm("GroupNormalization", images, "4", "GroupNormalization{num_groups=2}", both);
  norm("GroupNormalization of one group", images, "4", "GroupNormalization{num_groups=1}", both);
  norm("InstanceNormalization", images, "4", "InstanceNormalization{epsilon=0.1}", both);
}

// What reduces axes or chooses among values. No two values are equal.
inline void AddReductions(const std::string& images, const AddCase& add) {
  add("ReduceMean", images + "const %a: int64[2] = [2, 3]\nc: %y = ReduceMean{keepdims=0}(%d, %a)");
  add("ReduceMean of a middle axis",
      images + "const %a: int64[1] = [-2]\nc: %y = ReduceMean(%d, %a)");
  for (const char* op :
       {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceSumSquare"}) {
    add(op, images + "const %a: int64[2] = [1, 3]\nc: %y = " + op + "{keepdims=0}(%d, %a)");
    add(op + std::string(" of a middle axis"),
        images + "const %a: int64[1] = [-2]\nc: %y = " + op + "(%d, %a)");
  }
  for (const char* of : {"{axis=1}", "{axis=2, p=1}", "{p=2}"})
    add(std::string("LpNormalization") + of, images + "c: %y = LpNormalization" + of + "(%d)");
  for (const char* op : {"Max", "Mean", "Min", "Sum"}) {
    add(op, images + "const %w: float32[7, 6]\nconst %b: float32[4, 1, 1]\nt: %t = Tanh(%d)\n" +
                "c: %y = " + op + "(%d, %w, %t, %b)");
    add(op + std::string(" of one"), images + "c: %y = " + op + "(%d)");
  }
}

}  // namespace evoq
