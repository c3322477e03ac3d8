// Rotary positions: in each head, the pair (x_i, x_{i + D/2}) turns by
// position · frequency_i. The backward is the same turn the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor.h"

namespace headwise {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,  // every frequency divided by factor
  kLlama3,  // low frequencies divided, high kept, a ramp between
};

struct RopeConfig {
  int64_t head_dim = 0;  // dimensions that turn; even
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_frequency_factor = 1;   // kLlama3
  double high_frequency_factor = 4;  // kLlama3
  int64_t original_context = 8192;   // kLlama3
};

// [head_dim / 2] radians a position.
std::vector<float> RopeFrequencies(const RopeConfig& config);

enum class RopeDirection : uint8_t { kForward, kBackward };

struct RopeProblem {
  RopeDirection direction = RopeDirection::kForward;

  friend bool operator==(const RopeProblem&, const RopeProblem&) = default;
};

// Letters in shapes: T tokens, H heads of D dimensions, of which the first 2·F
// turn.
struct RopeArgs {
  ConstTensorView frequencies = {};  // f32 [F]
  ConstTensorView positions = {};    // i32 or i64 [T]
  TensorView x = {};                 // [T, H, D], last stride 1; in place
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void Rope(Context& context, const RopeProblem& problem, const RopeArgs& args);

// Caches that turned keys and their values join, behind the rows that they
// hold (ops/copy, AppendRows). The tokens of x are those of B sequences, M
// each.
struct RopeAppend {
  TensorView keys = {};       // [B, capacity, G, D]: x's last G heads
  Appended values = {};       // from [B, M, G, E], to [B, capacity, G, E]
  ConstTensorView held = {};  // i32 [B]
};

// Rope, forward, then AppendRows of both, as one piece of work where the device
// gains by it.
void RopeAndAppend(Context& context, const RopeArgs& args,
                   const RopeAppend& append);

}  // namespace headwise
