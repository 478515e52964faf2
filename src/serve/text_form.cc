#include "serve/text_form.h"

#include <algorithm>
#include <iterator>

#include "base/brief.h"
#include "base/json_file.h"

namespace evoq::serve {
namespace {

using nlohmann::json, nlohmann::ordered_json;

// A schema, which vLLM takes as a text too.
Result<std::shared_ptr<const Grammar>> SchemaOf(const ordered_json& schema) {
  return GrammarOfSchema(schema.is_string() ? schema.get<std::string>() : schema.dump());
}

Result<std::shared_ptr<const Grammar>> AnyObject() { return GrammarOfSchema("{}"); }

Result<std::shared_ptr<const Grammar>> FormatOf(const ordered_json& format) {
  const std::string type = JsonText(json(format), "type");
  if (type == "text") return nullptr;
  if (type == "json_object")  // llama.cpp takes a schema here
    return format.contains("schema") ? SchemaOf(format["schema"]) : AnyObject();
  if (type != "json_schema")
    return Unsupported("{}, expected the type text, json_object or json_schema",
                       Brief(json(format)));
  if (format.contains("schema")) return SchemaOf(format["schema"]);  // llama.cpp takes it so, too
  if (!format.contains("json_schema") || !format["json_schema"].is_object() ||
      !format["json_schema"].contains("schema"))
    return InvalidInput("{}, expected an object json_schema with a schema", Brief(json(format)));
  return SchemaOf(format["json_schema"]["schema"]);
}

Result<std::shared_ptr<const Grammar>> ChoiceOf(const ordered_json& choice) {
  const auto is_text = [](const ordered_json& one) { return one.is_string(); };
  if (!choice.is_array() || choice.empty() || !std::ranges::all_of(choice, is_text))
    return InvalidInput("{}, expected a list of texts", Brief(json(choice)));
  return GrammarOfTexts(choice.get<std::vector<std::string>>());
}

Result<std::shared_ptr<const Grammar>> GrammarOf(const ordered_json& grammar) {
  if (grammar.is_string()) return ParseGrammar(grammar.get<std::string>());
  return InvalidInput("{}, expected a text", Brief(json(grammar)));
}

Result<std::shared_ptr<const Grammar>> StructuredOf(const ordered_json& of);

// What says of which form the text is.
struct FormMember {
  const char* name;
  Result<std::shared_ptr<const Grammar>> (*grammar)(const ordered_json& value);
};
constexpr FormMember kForms[] = {{"response_format", FormatOf},  // OpenAI's
                                 {"grammar", GrammarOf},         // llama.cpp's
                                 {"json_schema", SchemaOf},
                                 {"guided_json", SchemaOf},  // vLLM's
                                 {"guided_choice", ChoiceOf},
                                 {"guided_grammar", GrammarOf},
                                 {"structured_outputs", StructuredOf}};
constexpr FormMember kStructured[] = {
    {"json", SchemaOf}, {"choice", ChoiceOf}, {"grammar", GrammarOf}};

Result<std::shared_ptr<const Grammar>> StructuredOf(const ordered_json& of) {
  for (const auto& [key, value] : of.items()) {
    if (value.is_null() || value == false) continue;
    if (key == "json_object") return AnyObject();
    const auto* const row =
        std::ranges::find_if(kStructured, [&](const FormMember& r) { return key == r.name; });
    if (row == std::end(kStructured))
      return Unsupported("{}, expected json, json_object, choice or grammar", Shorten(key));
    return WithContext(row->grammar(value), key);
  }
  return nullptr;
}

}  // namespace

Status ReadForm(Fields& fields, const ordered_json& ordered, std::shared_ptr<const Grammar>& form) {
  const char* first = nullptr;
  for (const FormMember& row : kForms) {
    const json& value = fields.Member(row.name);
    if (value.is_null() || value == "") continue;
    EVOQ_ASSIGN(auto grammar, WithContext(row.grammar(ordered[row.name]), row.name));
    if (grammar == nullptr) continue;
    if (form != nullptr)
      return InvalidInput("{}: {} says the text's form already", row.name, first);
    form = std::move(grammar);
    first = row.name;
  }
  return {};
}

}  // namespace evoq::serve
