// Rotary positions: in each head, pair i turns by position · frequency_i, and
// is multiplied by a scale. The backward is the same turn the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor.h"

namespace headwise {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,        // every frequency divided by factor
  kProportional,  // of a whole head, but 0 behind the dimensions that turn
  kDynamic,       // the base grows with a call beyond the original context
  kLlama3,        // low frequencies divided, high kept, a ramp over wavelengths
  kYarn,          // the same, a ramp over pairs; queries and keys are scaled
  kLongrope,      // each divided by its own factor, a short or a long one
};

// The two of pair i, of F.
enum class RopePairs : uint8_t {
  kHalves,      // x_i and x_{F + i}
  kNeighbours,  // x_{2i} and x_{2i + 1}
};

struct RopeConfig {
  int64_t head_dim = 0;  // of queries and keys
  int64_t turned = 0;    // the first dimensions, which turn; even; 0: all
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;                 // kLongrope: has those of each pair
  double low_frequency_factor = 1;   // kLlama3
  double high_frequency_factor = 4;  // kLlama3
  // Positions before the model was stretched: kDynamic, kLlama3, kYarn,
  // kLongrope.
  int64_t original_context = 8192;
  // kYarn: pairs of at least so many turns over the original context are kept,
  // those of at most so many divided.
  double kept_turns = 32;
  double divided_turns = 1;
  bool whole_pairs = true;  // kYarn: the ramp ends at whole pairs
  // kLongrope: one a pair, of calls within the original context and beyond it.
  std::vector<double> short_factors = {};
  std::vector<double> long_factors = {};
  double scale = 1;  // of turned queries and keys
  RopePairs pairs = RopePairs::kHalves;

  int64_t dims() const { return turned > 0 ? turned : head_dim; }

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

// kYarn's scale where a model says none: 1 + 0.1 · weight · ln factor.
double YarnScale(double factor, double weight = 1);
// kLongrope's: √(1 + ln factor / ln original_context).
double LongropeScale(double factor, int64_t original_context);

// Frequencies may depend on a call's length, its largest position + 1: two
// lengths have the same ones where this is the same. 0: every length has.
int64_t RopeLength(const RopeConfig& config, int64_t length);

// [F] radians a position, in calls of such a length; F is half of the
// dimensions that turn, and with kProportional of the head's.
std::vector<float> RopeFrequencies(const RopeConfig& config,
                                   int64_t length = 0);

enum class RopeDirection : uint8_t { kForward, kBackward };

struct RopeProblem {
  RopeDirection direction = RopeDirection::kForward;
  RopePairs pairs = RopePairs::kHalves;
  float scale = 1;

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

// Rope, then AppendRows of both, as one piece of work where the device gains by
// it.
void RopeAndAppend(Context& context, const RopeProblem& problem,
                   const RopeArgs& args, const RopeAppend& append);

}  // namespace headwise
