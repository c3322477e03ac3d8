// The arguments and flags of a command, declared. CLI11 reads them; it stays
// behind this header, for its templates take long to compile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/fields.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace headwise {

// One that was declared; each call says more about it.
class Argument {
 public:
  explicit Argument(CLI::Option* option) : option_(option) {}

  Argument Required() const;
  Argument ShowDefault() const;
  Argument ShowDefault(const std::string& text) const;
  Argument In(const FieldRange& range) const;
  Argument Positive() const { return In(Above(0)); }
  Argument NotNegative() const { return In(AtLeast(0)); }
  Argument Between(double low, double high) const {
    return In(headwise::Between(low, high));
  }
  Argument OneOf(const std::vector<std::string>& words) const;
  // why_not: "" for a good word, else "expected …; found …".
  Argument Check(
      std::function<std::string(const std::string& word)> why_not) const;
  // Lists: as many words as come, or exactly so many …
  Argument Several() const;
  Argument Words(int count) const;
  // … or one word each time the flag is given, cut at commas or not.
  Argument Commas() const;
  Argument OneWord() const;
  Argument Needs(const std::string& flag) const;
  Argument Excludes(Argument other) const;

 private:
  CLI::Option* option_;
};

// `name` is "--flag", "-f,--flag", or a bare word for a positional argument;
// `value` must outlive the parse and holds the default.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(&app) {}

  // take: the words that were given, once they are known to be good.
  Argument Option(
      const std::string& name,
      std::function<void(const std::vector<std::string>& words)> take,
      const std::string& help);
  Argument Option(const std::string& name, std::string& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::optional<std::string>& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::filesystem::path& value,
                  const std::string& help);
  Argument Option(const std::string& name,
                  std::optional<std::filesystem::path>& value,
                  const std::string& help);
  Argument Option(const std::string& name,
                  std::vector<std::filesystem::path>& value,
                  const std::string& help);
  Argument Option(const std::string& name, int& value, const std::string& help);
  Argument Option(const std::string& name, int64_t& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::optional<int64_t>& value,
                  const std::string& help);
  Argument Option(const std::string& name, uint64_t& value,
                  const std::string& help);
  Argument Option(const std::string& name, float& value,
                  const std::string& help);
  Argument Option(const std::string& name, double& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::optional<double>& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::vector<std::string>& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::vector<int>& value,
                  const std::string& help);
  Argument Option(const std::string& name, std::vector<int64_t>& value,
                  const std::string& help);
  // "--flag,!--no-flag" also takes it back.
  Argument Flag(const std::string& name, bool& value, const std::string& help);

  // Makes a flag that was declared one that must be given.
  void Require(const std::string& flag);

  // Below the examples of --help.
  void AddFooter(const std::string& text);

  // Whether it was written, once parsed.
  bool Given(const std::string& flag) const;

 private:
  CLI::App* app_;
};

// The flags of a command that were written, with their words.
std::vector<std::pair<std::string, std::vector<std::string>>> GivenFlags(
    const CLI::App& app);

}  // namespace headwise
