// A bias of the scores by distance (ALiBi, Press et al. 2022): a head's scores
// fall by its slope with every position between query and key. Slopes are not
// learned. Of n heads they are powers of 2^(−8/n); where n is no power of two,
// those of the next lower one, then every second of the next higher one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/tensor.h"

namespace headwise {

class AlibiSlopes {
 public:
  AlibiSlopes() = default;
  // Of each of `columns` the slope that this one of `all` heads has.
  AlibiSlopes(int64_t all, std::vector<int32_t> columns);

  explicit operator bool() const { return host_ != nullptr; }
  const std::vector<int32_t>& columns() const { return columns_; }
  // f32 [H] on the context's device; null: no bias.
  ConstTensorView view(Context& context) const { return values_.view(context); }

 private:
  std::vector<int32_t> columns_;
  std::shared_ptr<const std::vector<float>> host_;
  Values values_;
};

}  // namespace headwise
