// Door: help.h.
#include "help.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/drawing/text.h"

namespace headwise {
namespace {

constexpr int kColumn = 18;       // where descriptions begin
constexpr int kNarrow = 60;       // below it they stand under the names, …
constexpr int kNarrowIndent = 6;  // … so far in

class Formatter : public CLI::Formatter {
 public:
  explicit Formatter(int width) : width_(width) {
    column_width(kColumn);
    label("SUBCOMMAND", "COMMAND");
  }

  std::string make_description(const CLI::App* app) const override {
    return Wrap(CLI::detail::trim_copy(app->get_description()), width_);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return Wrap(CLI::detail::trim_copy(
                    CLI::Formatter::make_usage(app, std::move(name))),
                width_);
  }

  std::string make_subcommand(const CLI::App* sub) const override {
    return Entry(sub->get_display_name(true), sub->get_description());
  }

  std::string make_option(const CLI::Option* option,
                          bool positional) const override {
    return Entry(
        positional ? option->get_name(true) : Names(*option) + Value(*option),
        Description(*option));
  }

  // Examples and lists stand as they are, prose is wrapped anew.
  std::string make_footer(const CLI::App* app) const override {
    std::string out, prose;
    const auto flush = [&] {
      if (!prose.empty()) out += Wrap(prose, width_);
      prose.clear();
    };
    for (const std::string& line :
         CLI::detail::split(app->get_footer(), '\n')) {
      if (line.empty() || line[0] == ' ' || line.back() == ':') {
        flush();
        out += line + '\n';
      } else {
        prose += (prose.empty() ? "" : " ") + line;
      }
    }
    flush();
    return out;
  }

 private:
  // Name and description side by side, or below each other where either is
  // too wide for that.
  std::string Entry(const std::string& name, const std::string& text) const {
    const std::string label = "  " + name;
    if (text.empty()) return label + "\n";
    const int indent = width_ < kNarrow ? kNarrowIndent : kColumn;
    std::string wrapped = Wrap(text, width_, indent);
    if (width_ < kNarrow || DisplayWidth(label) >= kColumn) {
      return label + "\n" + wrapped;
    }
    return PadRight(label, kColumn) + wrapped.substr(kColumn);
  }

  static std::string Names(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_snames()) {
      names += (names.empty() ? "-" : ", -") + name;
    }
    const std::vector<std::string>& all = option.get_lnames();
    const auto known = [&](const std::string& name) {
      return std::ranges::find(all, name) != all.end();
    };
    for (const std::string& name : all) {
      if (name.starts_with("no-") && known(name.substr(3))) continue;
      names += names.empty() ? "--" : ", --";
      names += (known("no-" + name) ? "[no-]" : "") + name;
    }
    return names;
  }

  // "", " INT" or " TEXT..."
  static std::string Value(const CLI::Option& option) {
    if (option.get_items_expected_max() == 0) return "";
    std::string value = " " + option.get_type_name();
    if (option.get_expected_max() > 1 ||
        option.get_type_size_max() >= CLI::detail::expected_max_vector_size) {
      value += "...";
    }
    return value;
  }

  static std::string Description(const CLI::Option& option) {
    std::vector<std::string> more;
    if (option.get_required() && !option.get_positional()) {
      more.push_back("required");
    }
    std::string value = option.get_default_str();
    if (value.size() > 1 && value.front() == '[') {  // a list
      value = value.substr(1, value.size() - 2);
    }
    if (!value.empty()) more.push_back("default: " + value);
    for (const CLI::Option* other : option.get_needs()) {
      more.push_back("with " + Names(*other));
    }
    for (const CLI::Option* other : option.get_excludes()) {
      more.push_back("not with " + Names(*other));
    }
    const std::string& text = option.get_description();
    if (more.empty()) return text;
    return fmt::format("{} ({})", text, fmt::join(more, "; "));
  }

  int width_;
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> HelpFormatter(int width) {
  return std::make_shared<Formatter>(width);
}

}  // namespace headwise
