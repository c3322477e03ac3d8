// Positions as sines and cosines: the rows of a table that nobody stored.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class SinusoidRule : uint8_t {
  // Frequency i is 10000^(−2i / width); an odd width has a sine more.
  kWidth,
  // 10000^(−i / (half − 1)), as tensor2tensor has it; an odd width ends in 0.
  kHalf,
};

// Row p: sines of the angles of position first + p in its first half, cosines
// in the second. Made as far as texts
// reach: a whole table would be as long as a file claims. May be asked from
// several threads, each with its own Context of one device.
class Sinusoids {
 public:
  // At most `most` rows.
  Sinusoids(SinusoidRule rule, int64_t first, int64_t width, int64_t most)
      : rule_(rule), first_(first), width_(width), most_(most) {}

  // f32 [rows or more, width] on the context's device.
  std::shared_ptr<const Tensor> Table(Context& context, int64_t rows) const;

 private:
  SinusoidRule rule_;
  int64_t first_, width_, most_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Tensor> table_;
};

}  // namespace headwise
