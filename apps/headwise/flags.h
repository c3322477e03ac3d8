// The flags of a configuration, from its one list of fields (base/fields.h):
// field head_dim becomes --head-dim with the field's help, its range and its
// default; a field that is true or false becomes --field and --no-field.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "command_line.h"
#include "headwise/base/fields.h"
#include "headwise/drawing/text.h"

namespace headwise {

class FlagMaker {
 public:
  FlagMaker(CommandLine line, std::initializer_list<std::string_view> only)
      : line_(line), only_(only) {}

  template <typename Value>
  void operator()(std::string_view name, Value& value, const char* help) const {
    if (Wanted(name)) Make(name, value, help);
  }
  template <typename Value>
  void operator()(std::string_view name, Value& value, const char* help,
                  const FieldRange& range) const {
    if (Wanted(name)) Make(name, value, help).In(range);
  }

 private:
  bool Wanted(std::string_view name) const {
    return only_.size() == 0 || std::ranges::find(only_, name) != only_.end();
  }

  // "head_dim" → "head-dim", in names and in help.
  static std::string Dashed(std::string_view text) {
    std::string dashed(text);
    std::ranges::replace(dashed, '_', '-');
    return dashed;
  }

  template <typename Value>
  Argument Make(std::string_view name, Value& value, const char* help) const {
    const std::string flag = Dashed(name), text = Capital(Dashed(help));
    if constexpr (std::is_same_v<Value, bool>) {
      return line_.Flag("--" + flag + ",!--no-" + flag, value, text);
    } else if constexpr (requires { line_.Option(flag, value, text); }) {
      const Argument option = line_.Option("--" + flag, value, text);
      // One word, so that a positional may follow: --threads 1,2 attention.
      if constexpr (IsCommaList<Value>) option.Commas();
      if constexpr (IsOptional<Value>) {
        return value ? option.ShowDefault(FieldToJson(value).dump()) : option;
      } else {
        return option.ShowDefault();
      }
    } else {
      const std::vector<std::string> words = WordsOfField(value);
      return Words("--" + flag, value, text + ": " + AnyOf(words), words);
    }
  }

  // Words of an enum, or of a list of them.
  template <typename Value>
  Argument Words(const std::string& flag, Value& value, const std::string& help,
                 const std::vector<std::string>& words) const {
    const auto take = [&value](const std::vector<std::string>& given) {
      const Json list = given;
      TakeField(IsList<Value> ? list : list[0], value);
    };
    const Argument option = line_.Option(flag, take, help).OneOf(words);
    if (IsList<Value>) option.Several().Commas();
    const Json now = FieldToJson(value);
    std::string shown;
    for (const Json& word : now.is_array() ? now : Json::array({now})) {
      if (word.is_string()) {
        shown += (shown.empty() ? "" : ", ") + word.template get<std::string>();
      }
    }
    return option.ShowDefault(shown);
  }

  template <typename Value>
  static constexpr bool IsOptional = requires(Value v) {
    v.has_value();
  };
  template <typename Value>
  static constexpr bool IsList = requires(Value v) {
    v.push_back(v.front());
    requires !std::is_same_v<Value, std::string>;
  };
  // Paths have commas of their own.
  template <typename Value>
  static constexpr bool IsCommaList =
      IsList<Value> &&
      !std::is_same_v<Value, std::vector<std::filesystem::path>>;

  mutable CommandLine line_;
  std::initializer_list<std::string_view> only_;
};

// `config` must outlive the parse. only: the fields that are flags of this
// command; none: all of them.
template <typename Config>
void AddFlags(CommandLine line, Config& config,
              std::initializer_list<std::string_view> only = {}) {
  Config::VisitFields(config, FlagMaker(line, only));
}

}  // namespace headwise
