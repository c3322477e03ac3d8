// Door: bos.h.
#include "headwise/tokenizer/bos.h"

#include <algorithm>

#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

std::string_view TrimLeft(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n-");
  return text.substr(std::min(first, text.size()));
}

// One {{ expression }}: 'text' + …, bos_token, bos_token + …
bool ExpressionOpensWith(std::string_view expression, std::string_view token) {
  expression = TrimLeft(expression);
  if (expression.starts_with("bos_token")) return true;
  if (!expression.starts_with('\'') && !expression.starts_with('"')) {
    return false;
  }
  return expression.substr(1).starts_with(token);
}

// The template for plain chats where a file holds several.
std::string DefaultTemplate(const JsonCursor& json) {
  if (json.value().is_string()) return json.String();
  if (json.value().is_object()) return json.String("default", "");
  std::string first;
  for (const JsonCursor& named : json.Items()) {
    const std::string& text = named["template"].String();
    if (named.String("name", "") == "default") return text;
    if (first.empty()) first = text;
  }
  return first;
}

// "<s>", or {"content": "<s>", …}.
std::string TokenName(const JsonCursor& json) {
  return json.value().is_object() ? json["content"].String() : json.String();
}

}  // namespace

bool OpensWith(std::string_view chat_template, std::string_view token) {
  if (token.empty()) return false;
  for (std::string_view rest = TrimLeft(chat_template); !rest.empty();) {
    const bool writes = rest.starts_with("{{");
    if (!writes && !rest.starts_with("{%") && !rest.starts_with("{#")) {
      return rest.starts_with(token);
    }
    const char* close = writes ? "}}" : rest[1] == '%' ? "%}" : "#}";
    const size_t end = rest.find(close, 2);
    if (end == std::string_view::npos) return false;
    const std::string_view inside = rest.substr(2, end - 2);
    // An exception writes nothing.
    if (writes && !TrimLeft(inside).starts_with("raise_exception")) {
      return ExpressionOpensWith(inside, token);
    }
    rest = TrimLeft(rest.substr(end + 2));
  }
  return false;
}

BosFacts ReadBosFacts(const fs::path& folder) {
  BosFacts facts;
  const fs::path path = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return facts;
  const Json json = ReadJson(path);
  const JsonCursor root(json, path.string());
  if (const auto add = root.Find("add_bos_token")) facts.add = add->Bool();
  if (const auto token = root.Find("bos_token")) {
    facts.token = TokenName(*token);
  } else {
    facts.null_token = json.contains("bos_token");
  }
  if (!facts.token) return facts;
  const fs::path chat = folder / "chat_template.jinja";
  if (const auto text = root.Find("chat_template")) {
    facts.opens_chat = OpensWith(DefaultTemplate(*text), *facts.token);
  } else if (fs::exists(chat, ignored)) {
    facts.opens_chat = OpensWith(MappedFile(chat).text(), *facts.token);
  }
  return facts;
}

}  // namespace headwise
