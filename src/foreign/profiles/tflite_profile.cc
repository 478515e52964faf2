// What TensorFlow Lite's (LiteRT's) benchmark_model tells with --enable_op_profiling=true: the
// console's text, or what --profiling_output_csv_file=F writes. Of its tables this reads "Run
// Order" of the regular runs, behind that of the initialization; "Delegate internal:" in place of
// the delegate's own row:
//   [node type] [start] [first] [avg ms] [%] [cdf%] [mem KB] [times called] [Name]
//   node type, start, first, avg_ms, %, cdf%, mem KB, times called, name
// [start] is missing in newer versions. [avg ms] is of one call; a row stands for all nodes of its
// name, which are as many as its calls. Types and names hold spaces and commas: a row's numbers are
// what tells its fields.
//
// Types of XNNPACK name what it multiplies: "Convolution (NHWC, QC8) IGEMM", "Fully Connected (NC,
// QD8, F32, QC8W) GEMM" (activations are quantized in each run). Others, in capitals, are nodes of
// the model outside of any delegate.
#include <algorithm>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "foreign/profiles/number_text.h"
#include "foreign/profiles/source.h"

namespace evoq {
namespace {

struct Row {
  std::string type, name;
  double ms = 0;  // of a run
  double calls = 1;
};

struct Table {
  bool internal = false;  // of a delegate
  bool is_text = true;    // else fields between commas
  size_t numbers = 0;     // in a row
  std::vector<Row> rows;
};

struct Report {
  std::vector<Table> tables;  // of regular runs
  double end_to_end_ms = 0;
  double partitions = 0;
};

bool Has(std::string_view text, std::string_view word) { return text.find(word) != text.npos; }

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

struct Field {
  size_t begin, end;
};
std::vector<Field> FieldsOf(const std::string& line, bool is_text) {
  const char* separators = is_text ? " \t" : ",";
  std::vector<Field> fields;
  for (size_t at = 0; at < line.size();) {
    const size_t begin = is_text ? line.find_first_not_of(separators, at) : at;
    if (begin == line.npos) break;
    const size_t end = std::min(line.find_first_of(separators, begin), line.size());
    fields.push_back({begin, end});
    at = end + 1;
  }
  return fields;
}

// A number, with '%' behind it where that is asked for.
std::optional<double> NumberAt(const std::string& line, const Field& field, bool percent) {
  std::string text = Trimmed(line.substr(field.begin, field.end - field.begin));
  if (text.ends_with('%') != percent) return std::nullopt;
  if (percent) text.pop_back();
  return NumberOf(text);
}

// The row's numbers are the first as many in sequence, of which two are shares.
std::optional<Row> RowOf(const std::string& line, const Table& table) {
  constexpr size_t kLongest = size_t{64} << 10;
  if (line.size() > kLongest) return std::nullopt;
  const std::vector<Field> fields = FieldsOf(line, table.is_text);
  const size_t average = table.numbers - 5;  // before %, cdf%, mem KB and times called
  for (size_t i = 1; i + table.numbers <= fields.size(); ++i) {
    std::vector<double> numbers;
    for (size_t n = 0; n < table.numbers; ++n) {
      const auto number = NumberAt(line, fields[i + n], n == average + 1 || n == average + 2);
      if (!number) break;
      numbers.push_back(*number);
    }
    if (numbers.size() < table.numbers) continue;
    Row row;
    row.calls = std::max(1.0, numbers.back());
    row.ms = std::max(0.0, numbers[average]) * row.calls;
    row.type = Trimmed(line.substr(0, fields[i - 1].end));
    row.name = Trimmed(line.substr(std::min(fields[i + table.numbers - 1].end + 1, line.size())));
    std::ranges::replace(row.name, '\t', ',');  // which stands for it between commas
    return row;
  }
  return std::nullopt;
}

double NumberBehind(const std::string& line, std::string_view words) {
  const size_t at = line.find(words);
  return at == line.npos ? 0 : std::strtod(line.c_str() + at + words.size(), nullptr);
}

class Reader {
 public:
  Report Read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.starts_with("INFO: ")) line.erase(0, 6);
      Take(line);
    }
    return std::move(report_);
  }

 private:
  void Take(const std::string& line) {
    TakeFact(line);
    if (Has(line, "=====")) {
      in_order_ = Has(line, "= Run Order =");
      in_table_ = false;
    } else if (Has(line, "[node type]") || line.starts_with("node type,")) {
      if (in_order_) BeginTable(line);
    } else if (in_table_) {
      Table& table = report_.tables.back();
      if (auto row = RowOf(line, table)) table.rows.push_back(std::move(*row));
    }
  }

  // Which runs the tables that follow are of.
  void TakeFact(const std::string& line) {
    constexpr std::string_view kKernels = "partially executed by the delegate w/ ";
    if (Has(line, "Profiling Info for Benchmark Initialization")) {
      is_regular_ = false;
    } else if (Has(line, "Profiling Info for Regular Benchmark Runs")) {
      report_.tables.clear();
      is_regular_ = true, internal_ = false, subgraph_ = false, in_table_ = false;
    } else if (line.starts_with("Delegate internal:")) {
      internal_ = true, subgraph_ = false;
    } else if (line.starts_with("Subgraph (index: ") && line.ends_with(" profile:")) {
      subgraph_ = true;  // it runs in a node of the primary graph
    } else if (Has(line, kKernels)) {
      report_.partitions = NumberBehind(line, kKernels);
    } else if (const double us = NumberBehind(line, "Inference (avg): "); us > 0) {
      report_.end_to_end_ms = us / 1e3;
    } else if (const double old_us = NumberBehind(line, "no stats: "); old_us > 0) {
      report_.end_to_end_ms = old_us / 1e3;
    }
  }

  void BeginTable(const std::string& line) {
    in_table_ = is_regular_ && !subgraph_;
    if (!in_table_) return;
    Table table{.internal = internal_, .is_text = Has(line, "[node type]")};
    table.numbers = Has(line, "start") ? 7 : 6;
    report_.tables.push_back(std::move(table));
  }

  Report report_;
  bool is_regular_ = true;  // without headings, all is
  bool internal_ = false, subgraph_ = false, in_order_ = false, in_table_ = false;
};

// The words in brackets behind the layout: {"QD8", "F32", "QC8W"} of "(NC, QD8, F32, QC8W)".
std::vector<std::string> TypesIn(const std::string& type) {
  std::vector<std::string> types;
  const size_t open = type.find('('), close = type.find(')', open);
  if (open == type.npos || close == type.npos) return types;
  std::istringstream words(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(words, word, ',');) types.push_back(Trimmed(word));
  if (!types.empty()) types.erase(types.begin());
  return types;
}

// "int8" of "QC8", "QS8", "QDU8", "S8"; "int4" of "QC4W"; "fp32" of "F32" and "PF32".
std::string PrecisionOf(const std::string& type) {
  if (Has(type, "F32")) return "fp32";
  if (Has(type, "F16")) return "fp16";
  if (Has(type, "X8") || Has(type, "S8") || Has(type, "U8")) return "int8";
  if (type.starts_with('Q') && Has(type, "8")) return "int8";
  return type.starts_with('Q') && Has(type, "4") ? "int4" : "";
}

Conversion ConversionOf(const std::string& type, const std::vector<std::string>& types) {
  if (type == "QUANTIZE") return Conversion::kQuantize;
  if (type == "DEQUANTIZE") return Conversion::kDequantize;
  if (type == "CAST" || type.starts_with("Copy (")) return Conversion::kReformat;
  if (!type.starts_with("Convert (") || types.size() < 2) return Conversion::kNone;
  const bool from = BitsOf(PrecisionOf(types[0])) == 8, to = BitsOf(PrecisionOf(types[1])) == 8;
  if (from == to) return Conversion::kReformat;
  return to ? Conversion::kQuantize : Conversion::kDequantize;
}

bool IsDelegate(const Row& row) {
  return row.type.starts_with("TfLite") && Has(row.type, "Delegate");
}

ForeignLayer LayerOf(const Row& row) {
  ForeignLayer layer;
  // "Delegate/Convolution (NHWC, QC8) IGEMM:0", "[conv/Relu6;conv/BiasAdd]:3".
  const bool in_delegate = row.name.starts_with("Delegate/") || IsDelegate(row);
  layer.name = row.name.empty() ? row.type : row.name;
  layer.type = row.type;
  layer.where = in_delegate ? "delegate" : "TensorFlow Lite";
  layer.ms = row.ms;
  const std::vector<std::string> types = TypesIn(row.type);
  if (!types.empty()) layer.precision = PrecisionOf(types[0]);
  layer.conversion = ConversionOf(row.type, types);
  std::string operation = row.type.substr(0, row.type.find(" ("));
  std::erase(operation, ' ');  // "Fully Connected"
  layer.group = GroupOf(operation, "");
  if (layer.conversion != Conversion::kNone) layer.group = LayerGroup::kReformatQdq;
  layer.operators = {layer.name};
  return layer;
}

Result<ForeignRun> Read(const std::string& path) {
  EVOQ_ASSIGN(const std::string text, ReadTextFile(path));
  const Report report = Reader().Read(text);
  const bool internal = std::ranges::any_of(
      report.tables, [](const Table& table) { return table.internal && !table.rows.empty(); });
  ForeignRun run;
  run.tool = "tflite";
  run.path = path;
  run.end_to_end_ms = report.end_to_end_ms;
  for (const Table& table : report.tables) {
    for (const Row& row : table.rows) {
      if (internal && !table.internal && IsDelegate(row)) continue;
      run.layers.push_back(LayerOf(row));
      if (table.internal) run.layers.back().where = "delegate";
      // Of several parts one row: neighbours in the table are none.
      if (row.calls > 1) run.in_order = false;
    }
  }
  if (internal) run.in_order = false;
  if (run.layers.empty())
    return InvalidInput(
        "{}: no rows in a table \"Run Order\" of regular runs; expected what TensorFlow Lite's "
        "benchmark_model prints with --enable_op_profiling=true, or its "
        "--profiling_output_csv_file",
        path);
  if (report.partitions > 1)
    run.note = fmt::format(
        "the delegate runs {} parts of the model; values pass between them and TensorFlow Lite",
        report.partitions);
  run.excess = "what the profiler adds";
  run.detailed = true;
  Summarize(run);
  return run;
}

}  // namespace

extern const ForeignSource kSourceTfliteProfile = {
    .tool = "tflite",
    .option = "--tflite",
    .takes = "F",
    .doc = "Log or CSV of TensorFlow Lite's benchmark_model with --enable_op_profiling=true",
    .marks = {"[node type]", "node type, start", "node type,start", "node type, first",
              "node type,first"},
    .read = Read,
};

}  // namespace evoq
