// Tokens back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/tokenizer/work_budget.h"

namespace headwise {

// Immutable; threads may share one.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // The text is what is returned, one after the other. Throws
  // Error(kUnsupported) when that takes more than the budget has.
  virtual std::vector<std::string> Decode(std::vector<std::string> tokens,
                                          const WorkBudget& budget) const = 0;
};

// The "decoder" of a tokenizer.json; null joins tokens by spaces. Throws
// Error(kCorrupt) or, for a type no reader knows, Error(kUnsupported).
std::unique_ptr<TokenDecoder> MakeTokenDecoder(const JsonCursor& json);

}  // namespace headwise
