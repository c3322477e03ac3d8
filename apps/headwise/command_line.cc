// Door: command_line.h.
#include "command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/base/nearest.h"

namespace headwise {
namespace {

// Words that are no number at all are left to the conversion, which follows.
CLI::Validator Number(const std::string& expected,
                      std::function<bool(double)> good) {
  return CLI::Validator(
      [expected, good = std::move(good)](const std::string& word) {
        char* end = nullptr;
        const double value = std::strtod(word.c_str(), &end);
        if (end == word.c_str() || *end != '\0' || good(value)) {
          return std::string();
        }
        return fmt::format("expected {}; found {}", expected, word);
      },
      "");
}

CLI::Validator InRange(const FieldRange& range) {
  return Number("a number " + RangeText(range),
                [=](double value) { return range.Holds(value); });
}

}  // namespace

Argument Argument::Required() const { return Argument(option_->required()); }

Argument Argument::ShowDefault() const {
  return Argument(option_->capture_default_str());
}

Argument Argument::ShowDefault(const std::string& text) const {
  return Argument(option_->default_str(text));
}

Argument Argument::In(const FieldRange& range) const {
  return Argument(option_->check(InRange(range)));
}

Argument Argument::OneOf(const std::vector<std::string>& words) const {
  return Argument(option_->check(CLI::Validator(
      [words](const std::string& word) {
        if (std::find(words.begin(), words.end(), word) != words.end()) {
          return std::string();
        }
        constexpr size_t kFew = 4;  // are seen at a glance
        return fmt::format(
            "expected {}; found {}{}", AnyOf(words), word,
            words.size() > kFew
                ? fmt::format("; did you mean {}?", Nearest(word, words))
                : "");
      },
      "")));
}

Argument Argument::Check(
    std::function<std::string(const std::string&)> why_not) const {
  return Argument(
      option_->check([why_not = std::move(why_not)](const std::string& word) {
        return why_not(word);
      }));
}

Argument Argument::Several() const {
  return Argument(option_->expected(1, -1));
}

Argument Argument::Words(int count) const {
  return Argument(option_->expected(count));
}

Argument Argument::Commas() const {
  return Argument(option_->delimiter(',')->allow_extra_args(false));
}

Argument Argument::OneWord() const {
  return Argument(option_->allow_extra_args(false));
}

Argument Argument::Needs(const std::string& flag) const {
  return Argument(option_->needs(flag));
}

Argument Argument::Excludes(Argument other) const {
  return Argument(option_->excludes(other.option_));
}

Argument CommandLine::Option(
    const std::string& name,
    std::function<void(const std::vector<std::string>&)> take,
    const std::string& help) {
  const CLI::callback_t taken =
      [take = std::move(take)](const CLI::results_t& words) {
        take(words);
        return true;
      };
  return Argument(app_->add_option(name, taken, help)->type_name("TEXT"));
}

Argument CommandLine::Option(const std::string& name, std::string& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name, int& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name, int64_t& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::optional<int64_t>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name, uint64_t& value,
                             const std::string& help) {
  // CLI11 would wrap a negative number around.
  return Argument(
      app_->add_option(name, value, help)->check(InRange(AtLeast(0))));
}

Argument CommandLine::Option(const std::string& name, float& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name, double& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::vector<std::string>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name, std::vector<int>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::vector<int64_t>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::optional<std::string>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::filesystem::path& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::optional<std::filesystem::path>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::vector<std::filesystem::path>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Option(const std::string& name,
                             std::optional<double>& value,
                             const std::string& help) {
  return Argument(app_->add_option(name, value, help));
}

Argument CommandLine::Flag(const std::string& name, bool& value,
                           const std::string& help) {
  return Argument(app_->add_flag(name, value, help));
}

void CommandLine::Require(const std::string& flag) {
  app_->get_option(flag)->required()->default_str("");
}

void CommandLine::AddFooter(const std::string& text) {
  app_->footer(app_->get_footer() + "\n" + text);
}

bool CommandLine::Given(const std::string& flag) const {
  return app_->get_option(flag)->count() > 0;
}

std::vector<std::pair<std::string, std::vector<std::string>>> GivenFlags(
    const CLI::App& app) {
  std::vector<std::pair<std::string, std::vector<std::string>>> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) {
      given.push_back({option->get_name(), option->results()});
    }
  }
  return given;
}

}  // namespace headwise
