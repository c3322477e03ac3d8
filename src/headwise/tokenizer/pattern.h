// What to look for in a text: a literal or a regular expression, as
// tokenizer.json writes them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/tokenizer/aligned_text.h"
#include "headwise/tokenizer/work_budget.h"

namespace headwise {

// A stretch of a text, and whether the pattern matched it.
struct Match {
  Range range;
  bool matched;
};

// Immutable; threads may share one.
class Pattern {
 public:
  // Literal text, which must not be empty.
  static Pattern Literal(std::string text);
  // A regular expression in the dialect of tokenizer.json (Oniguruma), run by
  // PCRE2. Throws Error(kUnsupported) naming `where` and the position.
  static Pattern Regex(const std::string& expression, const std::string& where);
  // {"String": …} or {"Regex": …}.
  static Pattern FromJson(const JsonCursor& json);

  // The whole text, in order, cut into matched and unmatched stretches. Throws
  // Error(kUnsupported) when the expression takes too many steps at one place
  // or, over all places, more time than the budget has; null: one for `text`.
  std::vector<Match> Cut(std::string_view text,
                         const WorkBudget* budget = nullptr) const;

 private:
  struct Compiled;
  Pattern() = default;
  std::vector<Match> CutByExpression(std::string_view text,
                                     const WorkBudget& budget) const;

  std::string literal_;
  std::shared_ptr<const Compiled> compiled_;
};

// The same for a class of characters: each one is a match of its own.
std::vector<Match> CutAtCharacters(
    std::string_view text, const std::function<bool(char32_t)>& is_match);

}  // namespace headwise
