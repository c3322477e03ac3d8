// Which implementation of an operator runs a problem, and why others do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/export.h"
#include "headwise/tensor.h"

namespace headwise {

struct ImplementationNote {
  std::string name = {};     ///< "cpu.f32"
  std::string why_not = {};  ///< "": it takes the problem
  /// Attention, where the forward is taken: the passes that it runs, and why
  /// it refuses others.
  std::string passes = {};
};

struct Implementations {
  std::string problem = {};  ///< in words
  /// "heads are run with zero columns, 64 wide, by …"; "": as they are.
  std::string padded = {};
  /// Best first; the first without an objection runs.
  std::vector<ImplementationNote> entries = {};
};

/// C [m, n] = A [m, k] · B [k, n].
struct ProductProblem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  /// The type that operands are rounded to for the product.
  Precision precision = Precision::kStored;
};

/// Whatever the views. Throws Error(kInvalidArgument) for a problem that makes
/// no sense.
HEADWISE_API Implementations ExplainAttention(const AttentionProblem& problem);
HEADWISE_API Implementations ExplainProduct(const ProductProblem& problem);

}  // namespace headwise
