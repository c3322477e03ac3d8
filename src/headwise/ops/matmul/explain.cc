// The list of implementations in words. Door:
// include/headwise/implementations.h.
#include <string>

#include "headwise/implementations.h"
#include "headwise/ops/matmul/implementation.h"

namespace headwise {

Implementations ExplainProduct(const ProductProblem& problem) {
  MatmulProblem product = {.m = problem.m, .n = problem.n, .k = problem.k};
  product.precision = problem.precision;
  Implementations all = {ToString(product), "", {}};
  const MatmulArgs no_views;
  for (const auto& one : MatmulImplementations().entries) {
    all.entries.push_back({one.name, one.why_not({product, no_views}), ""});
  }
  return all;
}

}  // namespace headwise
